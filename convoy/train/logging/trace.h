#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace convoy::train {

/// Records some steps with torch's profiler and writes them as a Chrome trace, which
/// chrome://tracing and ui.perfetto.dev open: operations, the step program's instructions, and the
/// collectives by their labels.
class Trace {
 public:
  /// Makes no trace.
  Trace();
  /// Writes `path`, on other ranks than 0 with `.rank<N>` before the extension: `num_steps` steps
  /// after the first `skip` ones. The file names its rank, so that several may be shown together.
  /// Throws FileError when it cannot be written there.
  Trace(std::filesystem::path path, int rank, int num_ranks, int64_t skip, int64_t num_steps);
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  /// Around each step; true when the last step to record has ended.
  void begin_step();
  bool end_step();
  /// Writes what was recorded so far and returns the file; empty when there was nothing. Throws
  /// FileError.
  std::filesystem::path finish();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace convoy::train
