#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace convoy::checkpoint {

/// A file of tensors in a copy: its name there, and its size.
struct CopyFile {
  std::string name;
  size_t bytes = 0;
};

/// The files of a slot in this process's memory.
class MappedSlot {
 public:
  MappedSlot(const std::filesystem::path& folder, int slot, const std::vector<CopyFile>& files);

  std::byte* file(size_t f) const { return static_cast<std::byte*>(ranges_[f].data); }

 private:
  struct Range {
    void* data;
    size_t bytes;
    Range(void* data, size_t bytes) : data(data), bytes(bytes) {}
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
  };

  std::deque<Range> ranges_;
};

/// Two slots of memory in a folder, with links memory-0 to memory-3 to files in memory
/// (launch::KeptMemory), and up to two copies: folders checkpoint-<step> whose tensors are links to
/// a slot's files. One process of a host changes them. Functions throw FileError.
class CopySlots {
 public:
  static constexpr int kFilesOfSlot = 2;

  explicit CopySlots(std::filesystem::path folder);

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path copy_of(int64_t step) const;

  /// Removes all copies but the newest, and begins another one in the other slot, for which it
  /// takes memory unless that slot `has_memory`. Returns the slot.
  int begin(const std::vector<CopyFile>& files, const std::array<bool, 2>& has_memory) const;
  /// Folder of the copy that was begun.
  std::filesystem::path unfinished() const;
  /// Gives that copy its name.
  void finish(int64_t step) const;

  /// Files of tensors of a copy.
  std::vector<CopyFile> files_of(const std::filesystem::path& copy) const;
  /// Frees slots to which no copy leads; no process may have written them in this start.
  void free_unused() const;
  /// Bytes of this host that the slots hold now.
  int64_t held() const;

 private:
  std::filesystem::path folder_;
};

/// Writes a small file without waiting for a disk: a copy is of no use after the host has ended.
void write_plain(const std::filesystem::path& path, const std::string& text);

}  // namespace convoy::checkpoint
