#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

namespace convoy {

/// Right of one process to write into a folder. It lasts until the last copy is gone, or until
/// the process ends in whatever way, for the kernel takes it back. Several of one process share it.
class FolderLock {
 public:
  FolderLock() = default;
  /// Tries to get it, by a lock on the file `.lock` in `folder`; creates both. Throws FileError
  /// when they cannot be written.
  explicit FolderLock(const std::filesystem::path& folder);
  /// Tries for so long.
  FolderLock(const std::filesystem::path& folder, std::chrono::milliseconds patience);

  bool held() const { return file_ != nullptr; }
  /// Whether the folder is still the one that was locked: somebody may have moved it away.
  bool in_place() const;
  /// Holder of the lock: "process 123 on node7"; "" when no other has it.
  const std::string& holder() const { return holder_; }
  /// Reason why nobody can lock it here: the file system has no locks; "" when it has.
  const std::string& trouble() const { return trouble_; }

 private:
  struct File;
  void take(const std::filesystem::path& path);

  std::shared_ptr<const File> file_;
  std::string holder_;
  std::string trouble_;
};

}  // namespace convoy
