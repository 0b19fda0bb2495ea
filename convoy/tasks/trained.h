#pragma once

#include <filesystem>

#include "convoy/base/json.h"
#include "convoy/base/options.h"

namespace convoy::tasks {

/// Reads what a run left in `folder`: run.toml, where it is there, into `table`, and config.json,
/// which it returns. Throws UsageError, naming the checkpoint to take instead, unless `folder`
/// holds a trained model.
Json open_trained(const std::filesystem::path& folder, OptionTable& table);

}  // namespace convoy::tasks
