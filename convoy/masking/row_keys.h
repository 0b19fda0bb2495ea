#pragma once

#include <vector>

#include "convoy/base/random.h"
#include "convoy/nn/block.h"

namespace convoy::masking {

/// Keys of the random draws of each row of `ids` [B, T] int64 on the host: hashes of seed, step and
/// sample in training, of the row's ids alone in evaluation. `site` keeps different draws apart.
std::vector<uint64_t> row_keys(const at::Tensor& ids, uint64_t site, const nn::Context& context);

/// A whole number below `end`, drawn.
int64_t draw_below(int64_t end, uint64_t key, uint64_t counter);

}  // namespace convoy::masking
