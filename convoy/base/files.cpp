#include "convoy/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "convoy/base/error.h"

namespace convoy {
namespace fs = std::filesystem;

namespace {

std::string reason() {
  return std::strerror(errno);
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail<FileError>("files", "cannot create folder {}: {}", folder.string(), error.message());
}

void sync_path(const fs::path& path, bool folder) {
  int fd = ::open(path.c_str(), folder ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  if (fd < 0) fail<FileError>("files", "cannot open {} to flush it: {}", path.string(), reason());
  int result = ::fsync(fd);
  int saved = errno;
  ::close(fd);
  if (result != 0 && saved != EINVAL) {
    fail<FileError>("files", "cannot flush {} to the disk: {}; is the disk full?", path.string(),
                    std::strerror(saved));
  }
}

void rename_and_sync(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    fail<FileError>("files", "cannot rename {} to {}: {}", from.string(), to.string(),
                    error.message());
  }
  sync_path(to.has_parent_path() ? to.parent_path() : fs::path("."), true);
}

constexpr std::string_view kUnfinished = ".tmp";

/// A hidden neighbour of `path`, unique to this process.
fs::path neighbour(const fs::path& path) {
  auto clean = path.has_filename() ? path : path.parent_path();
  return clean.parent_path() /
         fmt::format(".{}.{}{}", clean.filename().string(), ::getpid(), kUnfinished);
}

}  // namespace

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail<FileError>("files", "cannot read {}: it is a folder; expected a file", path.string());
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) fail<FileError>("files", "cannot read {}: {}", path.string(), reason());
  std::ostringstream out;
  out << in.rdbuf();
  if (in.bad()) fail<FileError>("files", "cannot read {}: {}", path.string(), reason());
  return std::move(out).str();
}

AtomicFile::AtomicFile(fs::path final_path)
    : final_(std::move(final_path)), temporary_(neighbour(final_)) {
  if (final_.has_parent_path()) make_folder(final_.parent_path());
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_) fs::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  sync_path(temporary_, false);
  rename_and_sync(temporary_, final_);
  committed_ = true;
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  {
    std::ofstream out(file.temporary(), std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) {
      fail<FileError>("files", "cannot write {}: {}", path.string(),
                      errno ? reason() : "the disk may be full");
    }
  }
  file.commit();
}

AtomicFolder::AtomicFolder(fs::path final_path)
    : final_(final_path.has_filename() ? std::move(final_path) : final_path.parent_path()),
      temporary_(neighbour(final_)) {
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);
  make_folder(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  for (const auto& entry : fs::recursive_directory_iterator(temporary_)) {
    sync_path(entry.path(), entry.is_directory());
  }
  sync_path(temporary_, true);
  fs::path old;
  if (fs::exists(final_)) {
    old = temporary_.string() + ".old";
    rename_and_sync(final_, old);
  }
  rename_and_sync(temporary_, final_);
  committed_ = true;
  std::error_code ignored;
  if (!old.empty()) fs::remove_all(old, ignored);
}

void remove_unfinished(const fs::path& folder, std::string_view prefix) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with(fmt::format(".{}", prefix)) &&
        name.find(kUnfinished) != std::string::npos) {
      fs::remove_all(entry.path(), error);
    }
  }
}

fs::path unique_folder(std::string_view prefix) {
  auto pattern = (fs::temp_directory_path() / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    fail<FileError>("files", "cannot create a folder like {}: {}", pattern, reason());
  }
  return pattern;
}

}  // namespace convoy
