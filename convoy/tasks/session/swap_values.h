#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "convoy/data/parquet_files.h"
#include "convoy/models/session/session.h"

namespace convoy::tasks {

/// 65,536 values of each feature of a model, or all where there are fewer: [n] int64 or fp32. All
/// values of a column are as likely, and which they are is a function of seed and data. Padding of
/// the items, and what other lists have beside it, is none. Reads all of it once.
std::map<std::string, at::Tensor> draw_swap_values(
    const data::ParquetFiles& data, const data::Selection& selection,
    const std::vector<models::SessionFeature>& features, int64_t seed,
    const std::string& item_column);

}  // namespace convoy::tasks
