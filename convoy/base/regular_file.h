#pragma once

#include <filesystem>
#include <string>

namespace convoy {

/// read_file() of what must be a regular file: reading a pipe might never end. Throws FileError.
std::string read_regular_file(const std::filesystem::path& path);

}  // namespace convoy
