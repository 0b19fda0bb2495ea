#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "convoy/checkpoint/save.h"
#include "convoy/comm/group.h"
#include "convoy/formats/shard_size.h"
#include "convoy/models/language_model.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

/// Parameters that a file of weights lacked, and tensors that were passed over.
struct LoadReport {
  std::vector<std::string> drawn;    ///< parameters that it does not hold: initial values
  std::vector<std::string> skipped;  ///< tensors that the model does not use (attention masks)
};

/// Writes every parameter, fp32, and every buffer by its global name into `folder`, as Hugging
/// Face's tools read and lay it out: model.safetensors, or above `max_shard_bytes` shards. All
/// processes of `group` write what they hold; the files do not tell who wrote what.
void save_weights(const std::filesystem::path& folder, const parallel::State& weights,
                  const comm::Group& group,
                  int64_t max_shard_bytes = formats::shard_bytes(formats::kMaxShardSize),
                  const ConnectWriters& connect = {});

/// Reads what `weights` lists, in any real dtype, from a folder or a file. Names may lack the
/// layout's prefix; what may be lacking is to be drawn; the head may be missing, then too, or be
/// there beside the table that it is tied to, and then must be the same. Throws FileError that
/// names the file and everything that is missing, left over, twice or of another shape, or not as
/// the folder's manifest has it.
LoadReport load_weights(const std::filesystem::path& path, const parallel::State& weights,
                        const comm::Group& group, const models::WeightLayout& layout = {});

/// Reads the optimizer's moments, as load_weights() reads weights; `path` is their file, which may
/// be in shards.
void load_optimizer(const std::filesystem::path& path, const parallel::State& moments,
                    const comm::Group& group);

/// Throws NumericError, the same on all ranks, when a weight of any of them is not finite.
void check_finite(const parallel::State& weights, const comm::Group& group, int64_t step);

}  // namespace convoy::checkpoint
