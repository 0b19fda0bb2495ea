#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/models/language_model.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Weights of a wrapper's other parts, in the files of the model that a run starts from. They go
/// into every model that the run saves, byte for byte, and take no memory meanwhile.
class Carried {
 public:
  /// Opens the weights in `folder`, of which it reads the headers. `config`: of a model in a
  /// wrapper. Throws FileError that names a part which is not there whole.
  Carried(const std::filesystem::path& folder, const models::LanguageModelConfig& config);

  int64_t num_tensors() const { return std::ssize(names_); }
  int64_t num_bytes() const { return num_bytes_; }
  /// Layout of the files that with() is written to, which hold every weight.
  const models::WeightLayout& layout() const { return layout_; }

  /// `weights` with these beside them, which rank 0 (`main`) has, by names as this folder's files
  /// spell them: transformers keeps a file's spelling, too. Throws FileError where a file was
  /// changed in place since it was opened; one that was removed or replaced is still read.
  parallel::State with(parallel::State weights, bool main) const;

  /// Throws FileError unless they have the checksums that they were written with.
  void check_sums() const;

  /// Throws UsageError unless `saved`, a folder of with(), has the same.
  void check_same(const std::filesystem::path& saved) const;

 private:
  std::string file_name(const std::string& name) const;
  void check_parts(const models::LanguageModelConfig& config) const;
  void check_unchanged() const;

  std::filesystem::path folder_;
  std::shared_ptr<const formats::SafetensorsFolder> files_;
  models::WeightLayout layout_;  // names alone
  std::vector<std::string> names_;
  int64_t num_bytes_ = 0;
  bool respelled_ = false;                // names differ from those of Hugging Face's class
  std::vector<struct stat> as_opened_{};  // [file]
};

/// `file`, a config.json, as JSON. Where a wrapper's does not say whether its head is tied, what
/// its weights beside it say is added, as transformers finds it: a head that differs from the
/// embedding is not. Throws FileError.
Json read_config(const std::filesystem::path& file);

}  // namespace convoy::checkpoint
