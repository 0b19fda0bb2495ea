#pragma once

#include <filesystem>

namespace convoy::data {

/// Last folder of a window, such as 0003 with its train.parquet or valid.parquet, in a folder of
/// windows, as convoy data sessions --windows makes it; "" = there is none.
std::filesystem::path last_window(const std::filesystem::path& where);

}  // namespace convoy::data
