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
  /// Reads the headers of the weights in `folder`. `config`: of a model in a wrapper. Throws
  /// FileError that names a part of the wrapper whose weights are missing.
  Carried(const std::filesystem::path& folder, const models::LanguageModelConfig& config);

  int64_t num_tensors() const { return std::ssize(names_); }
  int64_t num_bytes() const { return num_bytes_; }
  /// Names of weights in the files that a model with carried weights is saved to.
  const models::WeightLayout& layout() const { return layout_; }

  /// Returns `weights` and the carried ones, named as this folder's files spell them (transformers
  /// keeps a file's spelling, too). Rank 0 (`main`) owns the carried ones. Throws FileError where a
  /// file was changed in place since it was opened; a removed or replaced file is still read.
  parallel::State with(parallel::State weights, bool main) const;

  /// Throws FileError unless they have the checksums that they were written with.
  void check_sums() const;

  /// Throws UsageError unless the model saved in `saved` carries the same weights.
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
