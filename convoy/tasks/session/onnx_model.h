#pragma once

#include <filesystem>

#include "convoy/formats/onnx.h"

namespace convoy::tasks {

/// Returns the session model of a run as a graph: input `item_ids` [batch, length] int64,
/// right-padded with 0, of at most prediction_length() items; result `scores` [batch, ids] fp32 of
/// all ids, -inf of padding and of items that are not recommended. Throws UsageError that names
/// what the graph does not support: other features than the item, and bodies other than those it
/// knows.
formats::OnnxGraph onnx_graph(const std::filesystem::path& folder);

}  // namespace convoy::tasks
