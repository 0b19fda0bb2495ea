#include "convoy/base/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/text.h"

namespace convoy {
namespace fs = std::filesystem;

struct FolderLock::File {
  File(fs::path path, int fd) : path(std::move(path)), fd(fd) {}
  ~File() {
    if (in_place() && locked) ::unlink(path.c_str());
    ::close(fd);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// Whether the path still names this file, which its holder removes in the end.
  bool in_place() const {
    struct stat here{}, there{};
    return ::fstat(fd, &here) == 0 && ::stat(path.c_str(), &there) == 0 &&
           here.st_dev == there.st_dev && here.st_ino == there.st_ino;
  }

  std::string text() const {
    std::array<char, 512> bytes{};
    const auto count = ::pread(fd, bytes.data(), bytes.size(), 0);
    return count > 0 ? trim({bytes.data(), static_cast<size_t>(count)}) : "another process";
  }

  void write() const {
    const auto text = fmt::format("process {} on {}\n", ::getpid(), host_name());
    if (::ftruncate(fd, 0) == 0 &&
        ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())) {
      return;
    }
    fail<FileError>("files", "cannot write {}: {}", path.string(), std::strerror(errno));
  }

  fs::path path;
  int fd;
  bool locked = false;
};

FolderLock::FolderLock(const fs::path& folder) {
  static std::mutex mutex;
  static std::map<fs::path, std::weak_ptr<const File>> own;
  make_folder(folder);
  const std::lock_guard guard(mutex);
  auto& known = own[fs::weakly_canonical(folder)];
  file_ = known.lock();
  if (!in_place()) file_.reset();  // of a folder that was here before
  if (!file_) take(folder / ".lock");
  known = file_;
}

FolderLock::FolderLock(const fs::path& folder, std::chrono::milliseconds patience)
    : FolderLock(folder) {
  constexpr std::chrono::milliseconds kPause{100};
  for (; !holder_.empty() && patience.count() > 0; patience -= kPause) {
    std::this_thread::sleep_for(kPause);
    *this = FolderLock(folder);
  }
}

bool FolderLock::in_place() const {
  return file_ != nullptr && file_->in_place();
}

void FolderLock::take(const fs::path& path) {
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
      fail<FileError>("files", "cannot write {}: {}", path.string(), std::strerror(errno));
    auto file = std::make_shared<File>(path, fd);
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno == EWOULDBLOCK) {
        holder_ = file->text();
      } else {
        trouble_ = std::strerror(errno);
        ::unlink(path.c_str());
      }
      return;
    }
    if (!file->in_place()) continue;
    file->locked = true;
    file->write();
    file_ = std::move(file);
    return;
  }
}

}  // namespace convoy
