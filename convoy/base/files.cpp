#include "convoy/base/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <regex>
#include <sstream>

#include "convoy/base/error.h"
#include "convoy/base/host_name.h"

namespace convoy {
namespace fs = std::filesystem;

namespace {

std::string reason() {
  return std::strerror(errno);
}

void sync_path(const fs::path& path, bool folder) {
  int fd = ::open(path.c_str(), folder ? O_RDONLY | O_DIRECTORY : O_RDONLY);
  if (fd < 0) fail<FileError>("files", "cannot open {} to flush it: {}", path.string(), reason());
  int result = ::fsync(fd);
  int saved = errno;
  ::close(fd);
  if (result != 0 && saved != EINVAL) {
    fail<FileError>("files", "cannot flush {} to the disk: {}", path.string(),
                    write_trouble(saved));
  }
}

void sync_parent(const fs::path& path) {
  sync_path(path.has_parent_path() ? path.parent_path() : fs::path("."), true);
}

void rename_and_sync(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    fail<FileError>("files", "cannot rename {} to {}: {}", from.string(), to.string(),
                    error.message());
  }
  sync_parent(to);
}

constexpr const char* kReplaced = ".old";

/// A device, a pipe: a file in its place would take it from everybody.
bool takes_what_comes(const fs::path& path) {
  std::error_code error;
  const auto type = fs::status(path, error).type();
  return type == fs::file_type::character || type == fs::file_type::block ||
         type == fs::file_type::fifo || type == fs::file_type::socket;
}

/// A hidden neighbour of `path`, of a name that no other writer on any host takes.
fs::path neighbour(const fs::path& path) {
  auto clean = path.has_filename() ? path : path.parent_path();
  auto host = host_name().substr(0, 20);
  std::replace_if(host.begin(), host.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return clean.parent_path() / fmt::format(".{}.{}-{}-{:08x}.tmp",
                                           clean.filename().string().substr(0, 200), host,
                                           ::getpid(), std::random_device()());
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    fail<FileError>("files", "cannot create folder {}: {}", folder.string(), error.message());
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

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

std::string read_regular_file(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    fail<FileError>("files", "cannot read {}: it is not a regular file", path.string());
  }
  return read_file(path);
}

AtomicFile::AtomicFile(fs::path final_path)
    : final_(std::move(final_path)),
      temporary_(takes_what_comes(final_) ? final_ : neighbour(final_)) {
  if (final_.has_parent_path()) make_folder(final_.parent_path());
  if (temporary_ != final_) not_to_stay_.emplace(temporary_);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_ && temporary_ != final_) fs::remove(temporary_, ignored);
}

void AtomicFile::commit() {
  if (temporary_ != final_) {
    sync_path(temporary_, false);
    rename_and_sync(temporary_, final_);
  }
  committed_ = true;
}

void write_file(const fs::path& path, std::string_view content) {
  AtomicFile file(path);
  {
    std::ofstream out(file.temporary(), std::ios::binary | std::ios::trunc);
    out.write(content.data(), static_cast<std::streamsize>(content.size()));
    out.flush();
    if (!out) {
      fail<FileError>("files", "cannot write {}: {}", path.string(), write_trouble(errno));
    }
  }
  file.commit();
}

AtomicFolder::AtomicFolder(fs::path final_path)
    : final_(final_path.has_filename() ? std::move(final_path) : final_path.parent_path()),
      temporary_(neighbour(final_)) {
  make_folder(temporary_);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
}

void AtomicFolder::commit() {
  std::error_code error;
  for (fs::recursive_directory_iterator entry(temporary_, error), end; entry != end;
       entry.increment(error)) {
    sync_path(entry->path(), entry->is_directory(error));
  }
  if (error) {
    fail<FileError>("files", "cannot flush {} to the disk: {}", temporary_.string(),
                    error.message());
  }
  sync_path(temporary_, true);
  if (fs::exists(final_)) {
    replace();
  } else {
    rename_and_sync(temporary_, final_);
  }
  committed_ = true;
}

void AtomicFolder::replace() {
  std::error_code ignored;
  if (::renameat2(AT_FDCWD, temporary_.c_str(), AT_FDCWD, final_.c_str(), RENAME_EXCHANGE) == 0) {
    sync_parent(final_);
    fs::remove_all(temporary_, ignored);
    return;
  }
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
    fail<FileError>("files", "cannot rename {} to {}: {}", temporary_.string(), final_.string(),
                    reason());
  }
  // A file system that cannot exchange: remove_unfinished() puts the old one back after a kill.
  const fs::path old = temporary_.string() + kReplaced;
  rename_and_sync(final_, old);
  try {
    rename_and_sync(temporary_, final_);
  } catch (const FileError&) {
    fs::rename(old, final_, ignored);
    throw;
  }
  fs::remove_all(old, ignored);
}

void remove_whole(const fs::path& folder) {
  const auto nameless = neighbour(folder);
  std::error_code ignored;
  fs::rename(folder, nameless, ignored);
  fs::remove_all(nameless, ignored);
}

void remove_unfinished(const fs::path& folder, const std::vector<std::string>& prefixes) {
  static const std::regex unfinished(R"(\.(.+)\.\w+-\d+-[0-9a-f]{8}\.tmp(\.old)?)");
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  for (const auto& path : entries) {
    const auto name = path.filename().string();
    std::smatch parts;
    if (!std::regex_match(name, parts, unfinished)) continue;
    const auto final_name = parts[1].str();
    const bool wanted =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](const std::string& prefix) { return final_name.starts_with(prefix); });
    if (!wanted) continue;
    if (parts[2].matched && !fs::exists(folder / final_name, error)) {
      rename_and_sync(path, folder / final_name);
    } else {
      fs::remove_all(path, error);
    }
  }
}

std::string write_trouble(int error) {
  if (error == 0) return "the disk may be full";
  const char* advice = "";
  if (error == ENOSPC || error == EDQUOT) advice = "; try to free some space, or another place";
  if (error == EFBIG) advice = "; try a higher `ulimit -f`, or another file system";
  if (error == EACCES || error == EPERM || error == EROFS) {
    advice = "; try a place where you may write";
  }
  return std::strerror(error) + std::string(advice);
}

fs::path unique_folder(std::string_view prefix) {
  std::error_code error;
  const auto temporary = fs::temp_directory_path(error);
  if (error) {
    const char* named = std::getenv("TMPDIR");
    fail<FileError>("files", "there is no folder for temporary files: TMPDIR = {}; try TMPDIR=/tmp",
                    named ? named : "/tmp");
  }
  auto pattern = (temporary / fmt::format("{}-XXXXXX", prefix)).string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    fail<FileError>("files", "cannot create a folder like {}: {}; try another TMPDIR", pattern,
                    write_trouble(errno));
  }
  return pattern;
}

}  // namespace convoy
