#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace convoy::formats {

/// Ways to store a matrix of fp32 vectors, by the ending of the file: npy, which NumPy reads, or
/// fvecs, in which each vector follows its width.
inline constexpr const char *kNpy = "npy", *kFvecs = "fvecs";

/// Writes vectors one after the other; how many there are is known at the end.
class VectorFile {
 public:
  /// Messages speak of `shown`, the name that the file is to have in the end. Throws FileError.
  VectorFile(const std::filesystem::path& file, std::filesystem::path shown,
             const std::string& format, int64_t width);

  /// Writes `count` vectors of `width` numbers. Throws FileError.
  void add(const float* vectors, int64_t count = 1);
  /// Completes the file. Throws FileError.
  void finish();
  int64_t count() const { return count_; }

 private:
  void put_header();
  void check();

  std::filesystem::path shown_;
  bool is_npy_;
  int64_t width_, count_ = 0;
  std::ofstream out_;
};

}  // namespace convoy::formats
