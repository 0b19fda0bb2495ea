#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/models/causal.h"
#include "convoy/parallel/replica.h"

namespace convoy::checkpoint {

/// What a file of weights left to do, and what was passed over.
struct LoadReport {
  std::vector<std::string> drawn;    ///< parameters that it does not hold: initial values
  std::vector<std::string> skipped;  ///< tensors that are no weights (attention masks)
};

inline constexpr int64_t kMaxShardBytes = 5'000'000'000;

/// Writes every parameter, fp32, and every buffer by its global name into `folder`, as Hugging
/// Face's tools read and lay it out: model.safetensors, or above `max_shard_bytes` shards.
void save_weights(const std::filesystem::path& folder, parallel::Replica& model,
                  int64_t max_shard_bytes = kMaxShardBytes);

/// Reads weights in any real dtype from a folder or a file. Names may lack the layout's prefix; the
/// head may be missing, and then is drawn, or be there beside the table that it is tied to, and
/// then must be the same. Throws FileError that names the file and everything that is missing, left
/// over, twice or of another shape.
LoadReport load_weights(const std::filesystem::path& path, parallel::Replica& model,
                        const models::WeightLayout& layout = {});

/// Writes AdamW's moments as `exp_avg.<parameter>` and `exp_avg_sq.<parameter>`.
void save_optimizer(const std::filesystem::path& path, parallel::Replica& model);
void load_optimizer(const std::filesystem::path& path, parallel::Replica& model);

}  // namespace convoy::checkpoint
