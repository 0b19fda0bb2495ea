#pragma once

#include <atomic>
#include <filesystem>

namespace convoy {

/// A name that is not to stay: while this lives, remove_temporary_files() removes the file, or the
/// folder with all in it.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& path);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

 private:
  std::atomic<char*>* place_ = nullptr;  // null: there were too many
};

/// Removes a folder with all in it, while others may still write there: tries for up to 2 s. A
/// signal's handler may call it.
void remove_folder(const char* folder);

/// Removes the files of this process's TemporaryFiles; for a process that is about to end. A
/// signal's handler may call it.
void remove_temporary_files();

}  // namespace convoy
