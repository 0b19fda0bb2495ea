#include "convoy/base/scratch_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy {
namespace fs = std::filesystem;

namespace {

constexpr size_t kPiece = 4 << 20;  // large enough for full speed, small enough to share out
constexpr int kThreads = 2;

}  // namespace

struct ScratchFile::Ticket::State {
  std::mutex mutex;
  std::condition_variable done;
  size_t left = 0;  // pieces
  std::string error;
};

struct ScratchFile::Piece {
  bool writes;
  size_t place;
  char* memory;
  size_t bytes;
  std::shared_ptr<Ticket::State> ticket;
};

void ScratchFile::Ticket::wait() {
  if (!state_) return;
  const auto state = std::move(state_);
  std::unique_lock lock(state->mutex);
  state->done.wait(lock, [&] { return state->left == 0; });
  if (!state->error.empty()) throw FileError(state->error);
}

ScratchFile::ScratchFile(const fs::path& folder, size_t bytes, std::string what)
    : folder_(folder), what_(std::move(what)) {
  open(folder);
  try {
    reserve(aligned(bytes));
    for (int i = 0; i < kThreads; ++i) threads_.emplace_back([this] { loop(); });
  } catch (...) {
    close();
    throw;
  }
}

ScratchFile::~ScratchFile() {
  close();
}

void ScratchFile::close() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (auto& thread : threads_) thread.join();
  ::close(fd_);
}

void ScratchFile::open(const fs::path& folder) {
  constexpr int kFlags = O_RDWR | O_CLOEXEC;
  constexpr mode_t kOwner = 0600;
  for (const int direct : {O_DIRECT, 0}) {
    fd_ = ::open(folder.c_str(), O_TMPFILE | kFlags | direct, kOwner);
    direct_ = direct != 0;
    if (fd_ >= 0) return;
    if (errno == EINVAL && direct != 0) continue;
    if (errno != EOPNOTSUPP && errno != EISDIR) break;
    // A file system without nameless files: the name goes at once.
    auto pattern = (folder / ".convoy-offload-XXXXXX").string();
    fd_ = ::mkostemp(pattern.data(), O_CLOEXEC | direct);
    if (fd_ < 0 && errno == EINVAL && direct != 0) continue;
    if (fd_ < 0) break;
    ::unlink(pattern.c_str());
    return;
  }
  throw FileError(trouble("open a file", errno));
}

/// Allocates the file's blocks now, so that a full disk is known before hours of training.
void ScratchFile::reserve(size_t bytes) {
  if (bytes == 0) return;
  const auto size = static_cast<off_t>(bytes);
  if (::fallocate(fd_, 0, 0, size) == 0) return;
  const bool cannot = errno == EOPNOTSUPP || errno == ENOSYS;
  if (cannot && ::ftruncate(fd_, size) == 0) return;
  throw FileError(trouble(fmt::format("take {} bytes", bytes).c_str(), errno));
}

std::string ScratchFile::trouble(const char* doing, int error) const {
  return fmt::format("[files] {}: cannot {} in {}: {}", what_, doing, folder_.string(),
                     write_trouble(error));
}

ScratchFile::Ticket ScratchFile::read(size_t place, void* memory, size_t bytes) {
  return start(false, place, static_cast<char*>(memory), bytes);
}

ScratchFile::Ticket ScratchFile::write(size_t place, const void* memory, size_t bytes) {
  return start(true, place, static_cast<char*>(const_cast<void*>(memory)), bytes);
}

ScratchFile::Ticket ScratchFile::start(bool writes, size_t place, char* memory, size_t bytes) {
  internal_check((place | bytes | reinterpret_cast<uintptr_t>(memory)) % kAlignment == 0, "files",
                 "a transfer of {} bytes at {} that is not aligned", bytes, place);
  Ticket ticket;
  ticket.state_ = std::make_shared<Ticket::State>();
  ticket.state_->left = (bytes + kPiece - 1) / kPiece;
  {
    const std::lock_guard lock(mutex_);
    for (size_t at = 0; at < bytes; at += kPiece) {
      pieces_.push_back(
          {writes, place + at, memory + at, std::min(kPiece, bytes - at), ticket.state_});
    }
  }
  work_.notify_all();
  return ticket;
}

void ScratchFile::loop() {
  for (;;) {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [&] { return stop_ || !pieces_.empty(); });
    if (pieces_.empty()) return;
    const auto piece = std::move(pieces_.front());
    pieces_.pop_front();
    lock.unlock();
    carry_out(piece);
  }
}

void ScratchFile::carry_out(const Piece& piece) {
  std::string error;
  for (size_t at = 0; at < piece.bytes && error.empty();) {
    const auto place = static_cast<off_t>(piece.place + at);
    const bool direct = direct_;  // another thread may give it up meanwhile
    const ssize_t moved = piece.writes ? ::pwrite(fd_, piece.memory + at, piece.bytes - at, place)
                                       : ::pread(fd_, piece.memory + at, piece.bytes - at, place);
    if (moved > 0) {
      at += static_cast<size_t>(moved);
    } else if (moved < 0 && errno == EINVAL && direct) {
      ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) & ~O_DIRECT);  // wants another alignment
      direct_ = false;  // only now: who reads it may take EINVAL for something else
    } else if (moved == 0 || errno != EINTR) {
      error = trouble(piece.writes ? "write" : "read", moved == 0 ? EIO : errno);
    }
  }
  const std::lock_guard lock(piece.ticket->mutex);
  if (!error.empty()) piece.ticket->error = error;
  if (--piece.ticket->left == 0) piece.ticket->done.notify_all();
}

std::shared_ptr<void> ScratchFile::map(size_t place, size_t bytes) const {
  void* memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(place));
  if (memory == MAP_FAILED) throw FileError(trouble("map a file", errno));
  return {memory, [bytes](void* mapped) {
            ::msync(mapped, bytes, MS_SYNC);
            ::munmap(mapped, bytes);
          }};
}

}  // namespace convoy
