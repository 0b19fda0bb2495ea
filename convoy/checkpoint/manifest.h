#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::checkpoint {

/// Checksums that the files of a folder must have: the checksum() of each tensor, which is the sum
/// of its pieces' checksums, whoever holds them. It is written after all other files.
class Manifest {
 public:
  static constexpr const char* kName = "manifest.json";

  Manifest() = default;
  /// The manifest of `folder`; empty where there is none. Throws FileError that names the mistake
  /// in it.
  static Manifest read(const std::filesystem::path& folder);
  static Manifest parse(std::string_view text, const std::string& where);

  void set(const std::string& file, const std::string& tensor, uint64_t sum) {
    sums_[file][tensor] = sum;
  }
  void set_bytes(const std::string& file, uint64_t bytes) { bytes_[file] = bytes; }
  /// Enters the files of `folder` that hold no tensors, as they are.
  void set_others(const std::filesystem::path& folder);
  std::string to_text() const;

  /// Throws FileError that names a file which is not in `folder`, or not of its size.
  void check_files(const std::filesystem::path& folder) const;

  bool empty() const { return sums_.empty(); }
  const std::map<std::string, std::map<std::string, uint64_t>>& sums() const { return sums_; }
  const std::map<std::string, uint64_t>& bytes() const { return bytes_; }
  /// Mistakes in the files that hold no tensors, a line for each.
  std::vector<std::string> wrong_others(const std::filesystem::path& folder) const;

 private:
  std::map<std::string, std::map<std::string, uint64_t>> sums_;  // [file][tensor]
  std::map<std::string, uint64_t> bytes_;                        // [file]
  std::map<std::string, uint64_t> others_;                       // [file]: of its bytes
};

}  // namespace convoy::checkpoint
