#pragma once

#include <filesystem>
#include <string_view>

namespace convoy {

/// Throws FileError unless there is the folder of a file that a person named, in which nothing else
/// is kept: a folder that was not there is a slip.
void check_named_file(const std::filesystem::path& path);

}  // namespace convoy
