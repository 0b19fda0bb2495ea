#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::formats {

/// An array of a NumPy file (.npy), row by row.
struct NpyArray {
  std::string dtype;  ///< name in safetensors: F16, F32, F64
  std::vector<int64_t> shape;
  std::string bytes;  ///< little-endian
};

/// Reads a file of format 1 to 3. Throws FileError: not NumPy's, cut short, longer than its shape
/// says, of numbers that are no fractions, or column by column.
NpyArray read_npy(const std::filesystem::path& file);
/// Reads what such a file holds; `where` names it in messages.
NpyArray parse_npy(std::string_view content, const std::string& where);

}  // namespace convoy::formats
