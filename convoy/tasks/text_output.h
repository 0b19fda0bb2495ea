#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/files.h"

namespace convoy::tasks {

/// Text that takes its file's place once it is complete, or the standard output.
class TextOutput {
 public:
  /// "-": the standard output. Throws FileError where it cannot be written.
  explicit TextOutput(const std::filesystem::path& file);

  void put(const std::string& text);
  void finish();

 private:
  std::ostream& out();
  void check();

  std::optional<AtomicFile> file_;
  std::string shown_;
  std::ofstream to_file_;
};

/// Throws UsageError unless `what` can go to `file`, which ends in .csv, .jsonl or (where `tables`)
/// .parquet, and is no folder and none of `inputs`.
void check_output(const std::filesystem::path& file, const char* what, bool tables,
                  const std::vector<std::filesystem::path>& inputs);

/// A value of .csv, quoted where it must be.
std::string csv_value(const std::string& text);

}  // namespace convoy::tasks
