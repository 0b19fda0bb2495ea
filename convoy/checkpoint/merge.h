#pragma once

#include <filesystem>

#include "convoy/base/progress.h"
#include "convoy/checkpoint/export.h"

namespace convoy::checkpoint {

/// Writes the model of an adapter with the adapter's products added to its weights, as PEFT's
/// merge_and_unload() does, as a new folder `to`, whole or not at all. Holds one tensor at a time;
/// weights keep their dtype. Throws FileError: a model or an adapter that is not there, not as it
/// was written, or does not fit the other.
Exported merge_adapter(const std::filesystem::path& adapter, const std::filesystem::path& to,
                       int64_t max_shard_bytes, const ProgressFn& progress = {});

}  // namespace convoy::checkpoint
