#pragma once

#include <filesystem>
#include <string>

#include "convoy/base/options.h"

namespace convoy::tasks {

/// Whether a command that opens a trained model reads an option of training.
bool read_without_training(const Option& option);

/// A sentence with the options that were typed for a command that opens `folder` and does not read
/// them; "" = none.
std::string unread_options(const OptionTable& table, const std::filesystem::path& folder,
                           const std::string& command);

}  // namespace convoy::tasks
