#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace convoy {

/// The whole content of a file. Throws FileError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// A file that appears whole or not at all: write to temporary(), then commit().
class AtomicFile {
 public:
  /// Creates missing parent folders. Throws FileError when they cannot be made.
  explicit AtomicFile(std::filesystem::path final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }

  /// Flushes to the disk and takes the final name. Throws FileError.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Writes a file atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

/// A folder that appears whole or not at all; same protocol as AtomicFile.
class AtomicFolder {
 public:
  explicit AtomicFolder(std::filesystem::path final_path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }

  /// Flushes every file, then renames; a folder already at the final place is replaced.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool committed_ = false;
};

/// Removes what processes that were killed left of AtomicFiles and AtomicFolders in `folder` whose
/// final names begin with `prefix`. Others must not be writing there.
void remove_unfinished(const std::filesystem::path& folder, std::string_view prefix);

/// Makes a new folder that only its owner can enter, in the system's temporary place.
std::filesystem::path unique_folder(std::string_view prefix);

}  // namespace convoy
