#include "convoy/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "convoy/base/error.h"

namespace convoy {

MappedFile::MappedFile(const std::filesystem::path& path, const char* component,
                       const char* expected)
    : path_(path),
      component_(component),
      fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // of a pipe, too
  if (fd_ < 0) {
    fail<FileError>(component, "cannot open {}: {}", path.string(), std::strerror(errno));
  }
  struct stat info{};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail<FileError>(component, "{} is not a regular file; expected {}", path.string(), expected);
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd_, 0);
  if (data_ == MAP_FAILED) {
    const int saved = errno;
    ::close(fd_);
    fail<FileError>(component, "cannot map {}: {}", path.string(), std::strerror(saved));
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
  ::close(fd_);
}

void MappedFile::read(size_t place, size_t bytes, void* to) const {
  auto* out = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t done = ::pread(fd_, out, bytes, static_cast<off_t>(place));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      fail<FileError>(component_, "cannot read {}: {}", path_.string(),
                      done < 0 ? std::strerror(errno) : "it has been cut short");
    }
    out += done;
    place += static_cast<size_t>(done);
    bytes -= static_cast<size_t>(done);
  }
}

}  // namespace convoy
