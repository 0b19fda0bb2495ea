#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace convoy {

/// A file that grows by whole records while others watch it. What the disk does not take waits in
/// memory and goes before the next record: a disk that is full for a while costs nothing.
class AppendFile {
 public:
  /// Opens or creates the file; `keep` leaves what it holds, and ends a line that was cut. Throws
  /// FileError.
  AppendFile(std::filesystem::path path, bool keep);
  /// Tries once more.
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends a record. Returns a sentence for the user when records begin to wait, else "".
  std::string append(std::string_view record);
  /// Continues in a new file where the old one was moved away. Returns a sentence where that fails,
  /// else "".
  std::string reopen();
  /// Writes what waits. Returns a sentence when it still does, else "".
  std::string flush();

 private:
  int write_waiting();

  std::filesystem::path path_;
  int fd_ = -1;
  std::string waiting_;
};

}  // namespace convoy
