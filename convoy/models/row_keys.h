#pragma once

#include <vector>

#include "convoy/base/random.h"
#include "convoy/nn/block.h"

namespace convoy::models {

/// What a row's random draws depend on, for each row of `ids` [B, T] int64 on the host: seed, step
/// and sample in training, its ids alone in evaluation. `site` keeps different draws apart.
std::vector<uint64_t> row_keys(const at::Tensor& ids, uint64_t site, const nn::Context& context);

}  // namespace convoy::models
