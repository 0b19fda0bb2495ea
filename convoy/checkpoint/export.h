#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/formats/safetensors.h"

namespace convoy::checkpoint {

struct ExportOptions {
  std::string dtype;  ///< fp32, bf16 or fp16 for all real numbers; "" = as they are
  int64_t max_shard_bytes = 0;
};

/// Files that an export wrote.
struct Exported {
  int64_t num_tensors = 0, num_bytes = 0;
  std::vector<std::string> weights;   ///< files
  std::vector<std::string> others;    ///< files that were taken over
  std::vector<std::string> warnings;  ///< sentences about it for a person
};

/// Writes the weights in `from` and what belongs to the model (config, tokenizer, tables; nothing
/// of the training) as a new folder `to`, whole or not at all. Holds one tensor at a time. Throws
/// FileError: weights that are not as they were written, a folder that is there; UsageError for
/// numbers that the dtype has not, and for a `to` that has no name or lies in `from`.
Exported export_model(const std::filesystem::path& from, const std::filesystem::path& to,
                      const ExportOptions& options, const ProgressFn& progress = {});

/// Writes the tensors `infos` as a model's files into `folder`, in shards of at most so many bytes:
/// `get` gives one at a time, contiguous on the host.
Exported write_model_files(const std::filesystem::path& folder,
                           const std::vector<formats::TensorInfo>& infos, int64_t max_shard_bytes,
                           const std::function<at::Tensor(const std::string& name)>& get,
                           const ProgressFn& progress);

/// Throws unless a folder `to` can be made out of what `from` holds: UsageError where it has no
/// name or lies in `from`, FileError where it is there already.
void check_new_folder(const std::filesystem::path& from, const std::filesystem::path& to);

/// Copies the small files of the model in `from` (belongs_to_model()) into `to`, but those of these
/// names. Returns the names of what it copied.
std::vector<std::string> copy_model_files(const std::filesystem::path& from,
                                          const std::filesystem::path& to,
                                          const std::vector<std::string>& but);

/// Whether a file is of the model and not of its training, of weights, or of another program's
/// state.
bool belongs_to_model(const std::filesystem::directory_entry& entry);

}  // namespace convoy::checkpoint
