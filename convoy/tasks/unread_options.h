#pragma once

#include <filesystem>
#include <string>

#include "convoy/base/options.h"

namespace convoy::tasks {

/// A sentence with the options that were typed for a command that opens `folder` and does not read
/// them; "" = none.
std::string unread_options(const OptionTable& table, const std::filesystem::path& folder,
                           const std::string& command);

}  // namespace convoy::tasks
