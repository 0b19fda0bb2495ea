#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy::data {

/// Files that fit a pattern such as `part-*.parquet`, sorted by name; empty where none does.
std::vector<std::filesystem::path> matching_files(const std::string& pattern);

}  // namespace convoy::data
