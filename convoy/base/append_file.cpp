#include "convoy/base/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy {

namespace {

/// Whether a file ends within a line, as after a crash of its host.
bool is_cut(int fd, const std::filesystem::path& path) {
  struct stat found{};
  if (::fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size == 0) return false;
  std::ifstream in(path, std::ios::binary);
  in.seekg(-1, std::ios::end);
  return in.get() != '\n' && in.good();
}

}  // namespace

AppendFile::AppendFile(std::filesystem::path path, bool keep) : path_(std::move(path)) {
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (keep ? 0 : O_TRUNC);
  fd_ = ::open(path_.c_str(), flags, 0666);
  if (fd_ < 0)
    fail<FileError>("files", "cannot write {}: {}", path_.string(), std::strerror(errno));
  if (keep && is_cut(fd_, path_)) waiting_ = "\n";
}

AppendFile::~AppendFile() {
  write_waiting();
  ::close(fd_);
}

/// Writes the lines that wait. Returns the errno of a failure, or 0.
int AppendFile::write_waiting() {
  struct stat before{};
  const bool known = ::fstat(fd_, &before) == 0 && S_ISREG(before.st_mode);
  size_t done = 0;
  while (done < waiting_.size()) {
    const ssize_t count = ::write(fd_, waiting_.data() + done, waiting_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int why = count < 0 ? errno : ENOSPC;
      // Half a record would spoil the next one. Where it cannot be taken back, its rest follows.
      const bool undone = done == 0 || (known && ::ftruncate(fd_, before.st_size) == 0);
      if (!undone) waiting_.erase(0, done);
      return why;
    }
    done += static_cast<size_t>(count);
  }
  waiting_.clear();
  return 0;
}

std::string AppendFile::append(std::string_view record) {
  const bool waited = !waiting_.empty();
  waiting_ += record;
  const int why = write_waiting();
  if (why == 0 || waited) return "";
  return fmt::format("{} takes no more ({}); what follows waits in memory until it does",
                     path_.string(), std::strerror(why));
}

std::string AppendFile::reopen() {
  const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd < 0) {
    return fmt::format("cannot write a new {}: {}; what follows goes to where it was moved to",
                       path_.string(), std::strerror(errno));
  }
  write_waiting();  // what still waits goes to the new one
  ::close(fd_);
  fd_ = fd;
  return "";
}

std::string AppendFile::flush() {
  const int why = write_waiting();
  if (why == 0) return "";
  return fmt::format("{} lacks its last {}: {}", path_.string(), human_bytes(waiting_.size()),
                     std::strerror(why));
}

}  // namespace convoy
