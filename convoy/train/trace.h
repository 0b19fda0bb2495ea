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
  /// No trace.
  Trace();
  /// Writes `path`, on other ranks than 0 with `.rank<N>` before the extension: `num_steps` steps
  /// after the first `skip` ones.
  Trace(std::filesystem::path path, int rank, int64_t skip, int64_t num_steps);
  ~Trace();
  Trace(Trace&&) noexcept;
  Trace& operator=(Trace&&) noexcept;

  /// Around each step. The file is written when the last step to record ends, or training does.
  void begin_step();
  void end_step();
  /// Writes what was recorded so far. Throws FileError.
  void finish();

 private:
  struct Recording;
  std::unique_ptr<Recording> recording_;
};

}  // namespace convoy::train
