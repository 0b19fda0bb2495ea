#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace convoy {

/// A whole regular file in memory, of which the system reads what is used.
class MappedFile {
 public:
  /// Throws FileError of `component`; `expected` says of which kind the file should be.
  MappedFile(const std::filesystem::path& path, const char* component, const char* expected);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  size_t size() const { return size_; }
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

  /// Copies from the file, which costs less than to map each of its pages where they are read once.
  void read(size_t place, size_t bytes, void* to) const;

 private:
  std::filesystem::path path_;
  const char* component_;
  int fd_;
  void* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace convoy
