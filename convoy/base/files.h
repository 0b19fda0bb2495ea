#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/temporary_file.h"

namespace convoy {

/// Creates the folder and its parents. Throws FileError.
void make_folder(const std::filesystem::path& folder);

/// Whether both paths lead to the same file or folder, which is there.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

/// Throws UsageError where an output is one of the inputs, which it would replace; `component` says
/// so.
void check_keeps_inputs(const char* component, const std::filesystem::path& output,
                        const std::vector<std::filesystem::path>& inputs);

/// Returns the whole content of a file. Throws FileError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Content of a file that must be a regular one: reading a pipe might never end. Throws FileError.
std::string read_regular_file(const std::filesystem::path& path);

/// Lines of a file, one after the other.
class LineReader {
 public:
  /// `expected` is what the file should be, for the error: "a prompt a line". Throws FileError
  /// where it cannot be opened.
  LineReader(std::filesystem::path file, std::string_view expected);

  /// Reads the next line without its "\n"; false at the end of the file. Throws FileError where the
  /// file cannot be read to its end.
  bool next(std::string& line);
  /// Whether a "\n" stood behind the last one.
  bool ended() const { return !in_.eof(); }

 private:
  std::filesystem::path file_;
  std::ifstream in_;
};

/// A file that appears whole or not at all: write to temporary(), then commit(). Who may read a
/// file that it replaces, and no one else, may read it. A symbolic link stays; what it leads to is
/// replaced.
class AtomicFile {
 public:
  /// Creates missing parent folders, and removes what killed processes left of this very file.
  /// Throws FileError when folders cannot be made.
  explicit AtomicFile(const std::filesystem::path& final_path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }

  /// Writes the content to the disk. Throws FileError.
  void flush();
  /// Flushes and takes the final name. Throws FileError.
  void commit();

 private:
  std::filesystem::path final_;
  std::filesystem::path temporary_;
  bool flushed_ = false;
  std::optional<TemporaryFile> not_to_stay_;
  int alive_ = -1;  // locked: who finds it so leaves it
  bool committed_ = false;
};

/// Writes a file atomically.
void write_file(const std::filesystem::path& path, std::string_view content);

/// A folder that appears whole or not at all; same protocol as AtomicFile.
class AtomicFolder {
 public:
  explicit AtomicFolder(const std::filesystem::path& final_path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }

  /// Flushes every file, then renames; a folder already at the final place is replaced, and at no
  /// moment absent where the file system can exchange two names (else see remove_unfinished).
  void commit();

 private:
  void replace();

  std::filesystem::path final_;
  std::filesystem::path temporary_;
  int alive_ = -1;
  bool committed_ = false;
};

/// Removes a folder that nobody shall find in parts: it loses its name first. What cannot be
/// removed stays.
void remove_whole(const std::filesystem::path& folder);

/// Removes what processes that were killed left of AtomicFiles and AtomicFolders in `folder` whose
/// final names begin with one of `prefixes`; a folder that was being replaced is put back. Others
/// must not be writing such there.
void remove_unfinished(const std::filesystem::path& folder,
                       const std::vector<std::string>& prefixes);

/// Text for an errno of writing, with advice: "Permission denied; try a place where you may write".
/// `error` 0: the reason is not known.
std::string write_trouble(int error);

/// Throws an error of writing, `what` ("cannot write x") with write_trouble() of `error`:
/// DiskFullError where the disk is full, else FileError.
[[noreturn]] void fail_to_write(const char* component, const std::string& what, int error);

/// Makes a new folder that only its owner can enter, in the system's temporary place. Throws
/// FileError, also where TMPDIR names no folder.
std::filesystem::path unique_folder(std::string_view prefix);

}  // namespace convoy
