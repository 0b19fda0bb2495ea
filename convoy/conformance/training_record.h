#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "convoy/formats/safetensors.h"

namespace convoy::conformance {

/// Tensors of some safetensors files in one folder, by name.
class TensorFiles {
 public:
  TensorFiles() = default;
  /// Opens the files of `folder` whose names begin with `prefix`. Throws FileError when there is
  /// none, or one cannot be read.
  TensorFiles(const std::filesystem::path& folder, const std::string& prefix);

  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return file_of_.contains(name); }
  const formats::SafetensorsEntry& entry(const std::string& name) const;
  /// Copies the elements [begin, end) of a tensor as doubles. Throws FileError for a dtype that is
  /// not a real number.
  std::vector<double> read(const std::string& name, int64_t begin, int64_t end) const;
  bool same_bytes(const TensorFiles& other, const std::string& name) const;

 private:
  std::vector<formats::SafetensorsFile> files_;
  std::map<std::string, size_t> file_of_;
};

/// Losses, gradient norms and state by which two trainings of the same rows are compared.
struct TrainingRecord {
  std::vector<double> losses;      ///< of each step: mean over its targets; NaN: it was skipped
  std::vector<double> grad_norms;  ///< of each step: global norm before clipping
  TensorFiles weights;             ///< after the last step
  TensorFiles moments;             ///< after the last step: optimizer states, as STATE.NAME
};

/// Reads the log of `run`, a folder that a training with one log line a step left, and
/// `checkpoint`, its state after the last of `steps`. Throws FileError where a step is not logged,
/// but those that fp16's loss scale skipped or that had no target.
TrainingRecord read_record(const std::filesystem::path& run, int64_t steps,
                           const std::filesystem::path& checkpoint);

}  // namespace convoy::conformance
