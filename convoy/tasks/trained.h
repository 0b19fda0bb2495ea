#pragma once

#include <filesystem>

namespace convoy::tasks {

/// Throws UsageError, naming the checkpoint to take instead, unless `folder` holds a trained model.
void check_trained(const std::filesystem::path& folder);

}  // namespace convoy::tasks
