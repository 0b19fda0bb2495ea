#include "convoy/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <regex>

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
    fail_to_write("files", fmt::format("cannot flush {} to the disk", path.string()), saved);
  }
}

void sync_parent(const fs::path& path) {
  sync_path(path.has_parent_path() ? path.parent_path() : fs::path("."), true);
}

void rename_and_sync(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) {
    fail_to_write("files", fmt::format("cannot rename {} to {}", from.string(), to.string()),
                  error.value());
  }
  sync_parent(to);
}

constexpr const char* kReplaced = ".old";

/// Whether a path is a device or a pipe, which a file must not replace.
bool takes_what_comes(const fs::path& path) {
  std::error_code error;
  const auto type = fs::status(path, error).type();
  return type == fs::file_type::character || type == fs::file_type::block ||
         type == fs::file_type::fifo || type == fs::file_type::socket;
}

/// Part of a temporary file's name that tells which file it belongs to.
std::string known_as(const fs::path& path) {
  return path.filename().string().substr(0, 200);
}

/// Returns the target of a symbolic link, which need not exist. The target is written, and the link
/// stays.
fs::path behind_links(fs::path path) {
  std::error_code error;
  constexpr int kMost = 40;  // as the kernel
  for (int i = 0; i < kMost && fs::is_symlink(path, error); ++i) {
    const auto to = fs::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / to;  // `to` alone where it is absolute
  }
  if (fs::is_symlink(path, error)) {
    fail<FileError>("files", "cannot write {}: its symbolic links lead nowhere", path.string());
  }
  return path;
}

/// Name of a hidden temporary file beside `path`, which no other writer on any host takes.
fs::path neighbour(const fs::path& path) {
  auto clean = path.has_filename() ? path : path.parent_path();
  auto host = host_name().substr(0, 20);
  std::replace_if(
      host.begin(), host.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return clean.parent_path() / fmt::format(".{}.{}-{}-{:08x}.tmp", known_as(clean), host,
                                           ::getpid(), std::random_device()());
}

/// Whether `name` is one that neighbour() makes; `parts`: name of its file, and kReplaced or
/// nothing.
bool is_neighbour(const std::string& name, std::smatch& parts) {
  static const std::regex unfinished(R"(\.(.+)\.\w+-\d+-[0-9a-f]{8}\.tmp(\.old)?)");
  return std::regex_match(name, parts, unfinished);
}

/// Gives `temporary` the mode of `path`, which it is to replace. `more`: rights that its writer
/// needs until then.
void keep_mode(const fs::path& temporary, const fs::path& path, mode_t more = 0) {
  constexpr mode_t kAll = 07777;
  struct stat before{};
  if (::stat(path.c_str(), &before) != 0) return;
  ::chmod(temporary.c_str(), (before.st_mode & kAll) | more);
}

bool lock(int fd) {
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/// Creates the temporary file, or opens the temporary folder, of `path`, with a lock and the mode
/// of `path`. Returns -1 on failure, whose reason the later write reports.
int open_alive(const fs::path& temporary, const fs::path& path, bool folder) {
  const int fd = folder ? ::open(temporary.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                        : ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return fd;
  lock(fd);
  keep_mode(temporary, path, folder ? S_IRWXU : S_IRUSR | S_IWUSR);
  return fd;
}

/// Whether this process is making `folder`, so that all files in there are its own.
bool is_being_made(const fs::path& folder) {
  const auto name = folder.filename().string();
  std::smatch parts;
  return is_neighbour(name, parts) && name.find(fmt::format("-{}-", ::getpid())) != name.npos;
}

/// Removes temporary files of `path` whose writers were killed: nobody has locked them for a while.
void remove_abandoned(const fs::path& path) {
  constexpr std::chrono::minutes kWhile{1};
  std::error_code error;
  std::vector<fs::path> abandoned;
  const auto folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (is_being_made(folder)) return;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    std::smatch parts;
    if (!is_neighbour(name, parts) || parts[2].matched || parts[1] != known_as(path)) continue;
    if (fs::file_time_type::clock::now() - entry.last_write_time(error) < kWhile) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) continue;
    if (lock(fd)) abandoned.push_back(entry.path());
    ::close(fd);
  }
  for (const auto& each : abandoned) fs::remove_all(each, error);
}

}  // namespace

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_to_write("files", "cannot create folder " + folder.string(), error.value());
}

bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

void check_keeps_inputs(const char* component, const fs::path& output,
                        const std::vector<fs::path>& inputs) {
  for (const auto& input : inputs) {
    if (!same_file(input, output)) continue;
    fail<UsageError>(component, "the output {} would replace the input {}; try another --output",
                     output.string(), input.string());
  }
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    fail<FileError>("files", "cannot read {}: it is a folder; expected a file", path.string());
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) fail<FileError>("files", "cannot read {}: {}", path.string(), reason());
  // Reads by pieces, as `<< in.rdbuf()` takes an error midway for the end of the file.
  std::string out;
  std::vector<char> piece(size_t{1} << 18);
  const auto whole = fs::is_regular_file(path, error) ? fs::file_size(path, error) : 0;
  if (!error) out.reserve(whole);
  errno = 0;
  while (in) {
    in.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    out.append(piece.data(), static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) fail<FileError>("files", "cannot read {} to its end: {}", path.string(), reason());
  return out;
}

std::string read_regular_file(const fs::path& path) {
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    fail<FileError>("files", "cannot read {}: it is not a regular file", path.string());
  }
  return read_file(path);
}

LineReader::LineReader(fs::path file, std::string_view expected) : file_(std::move(file)) {
  std::error_code error;
  if (fs::is_directory(file_, error)) {
    fail<FileError>("files", "cannot read {}: it is a folder; expected {}", file_.string(),
                    expected);
  }
  in_.open(file_, std::ios::binary);
  if (!in_) {
    fail<FileError>("files", "cannot read {}: {}; expected {}", file_.string(), reason(), expected);
  }
}

bool LineReader::next(std::string& line) {
  errno = 0;
  if (std::getline(in_, line)) return true;
  if (in_.bad()) {
    fail<FileError>("files", "cannot read {} to its end: {}", file_.string(), reason());
  }
  return false;
}

AtomicFile::AtomicFile(const fs::path& final_path)
    : final_(takes_what_comes(final_path) ? final_path : behind_links(final_path)),
      temporary_(takes_what_comes(final_) ? final_ : neighbour(final_)) {
  if (final_.has_parent_path()) make_folder(final_.parent_path());
  if (temporary_ == final_) return;
  remove_abandoned(final_);
  not_to_stay_.emplace(temporary_);
  alive_ = open_alive(temporary_, final_, /*folder=*/false);
}

AtomicFile::~AtomicFile() {
  std::error_code ignored;
  if (!committed_ && temporary_ != final_) fs::remove(temporary_, ignored);
  if (alive_ >= 0) ::close(alive_);
}

void AtomicFile::flush() {
  if (temporary_ == final_ || flushed_) return;
  keep_mode(temporary_, final_);
  sync_path(temporary_, false);
  flushed_ = true;
}

void AtomicFile::commit() {
  flush();
  if (temporary_ != final_) {
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
      fail_to_write("files", "cannot write " + path.string(), errno);
    }
  }
  file.commit();
}

AtomicFolder::AtomicFolder(const fs::path& final_path)
    : final_(behind_links(final_path.has_filename() ? final_path : final_path.parent_path())),
      temporary_(neighbour(final_)) {
  remove_abandoned(final_);
  make_folder(temporary_);
  alive_ = open_alive(temporary_, final_, /*folder=*/true);
}

AtomicFolder::~AtomicFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(temporary_, ignored);
  if (alive_ >= 0) ::close(alive_);
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
  keep_mode(temporary_, final_);
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
  std::error_code error;
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder, error)) entries.push_back(entry.path());
  for (const auto& path : entries) {
    const auto name = path.filename().string();
    std::smatch parts;
    if (!is_neighbour(name, parts)) continue;
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

void fail_to_write(const char* component, const std::string& what, int error) {
  const auto text = fmt::format("[{}] {}: {}", component, what, write_trouble(error));
  if (error == ENOSPC || error == EDQUOT) throw DiskFullError(text);
  throw FileError(text);
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
