#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "convoy/base/files.h"
#include "convoy/base/scratch_file.h"

// A disk that takes no direct transfer, as those with blocks of 64 KiB.
namespace {

std::atomic<bool> large_blocks{false};
std::atomic<int> refused{0};

ssize_t write_at(int fd, const void* memory, size_t bytes, off_t place) {
  if (large_blocks && (::fcntl(fd, F_GETFL) & O_DIRECT) != 0) {
    // Both threads have a transfer under way before either hears of it.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
    ++refused;
    while (refused < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    errno = EINVAL;
    return -1;
  }
  return ::syscall(SYS_pwrite64, fd, memory, bytes, place);
}

}  // namespace

// In the place of the C library's.
extern "C" ssize_t pwrite(int fd, const void* memory, size_t bytes, off_t place) {
  return write_at(fd, memory, bytes, place);
}
extern "C" ssize_t pwrite64(int fd, const void* memory, size_t bytes, off_t place) {
  return write_at(fd, memory, bytes, place);
}

namespace convoy {
namespace {

TEST(ScratchAlignment, TwoTransfersThatAreRefusedAtOnceGoOnThroughThePageCache) {
  const auto folder = unique_folder("scratch-alignment");
  constexpr size_t kBytes = 8 << 20;  // a piece for each thread
  const std::unique_ptr<void, decltype(&std::free)> memory(
      std::aligned_alloc(ScratchFile::kAlignment, kBytes), &std::free);
  {
    ScratchFile file(folder, kBytes, "test");
    if (file.is_direct()) {
      large_blocks = true;
      EXPECT_NO_THROW(file.write(0, memory.get(), kBytes).wait());
      large_blocks = false;
      EXPECT_EQ(refused, 2) << "the transfers did not meet";
      EXPECT_FALSE(file.is_direct());
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy
