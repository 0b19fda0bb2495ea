#pragma once

#include <filesystem>

#include "convoy/base/progress.h"
#include "convoy/checkpoint/export.h"

namespace convoy::checkpoint {

/// Writes a model whose experts are MXFP4 (gpt-oss) with weights in bf16, as a new folder `to`,
/// whole or not at all. Holds one tensor at a time. Throws FileError: a model that is not quantized
/// so, blocks that do not fit their scales, a folder that is there.
Exported dequantize(const std::filesystem::path& from, const std::filesystem::path& to,
                    int64_t max_shard_bytes, const ProgressFn& progress = {});

}  // namespace convoy::checkpoint
