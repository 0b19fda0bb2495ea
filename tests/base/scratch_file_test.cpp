#include "convoy/base/scratch_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/base/few_threads.h"
#include "tests/base/small_disk.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Memory {
 public:
  explicit Memory(size_t bytes)
      : data(static_cast<char*>(std::aligned_alloc(ScratchFile::kAlignment, bytes))), size(bytes) {}
  ~Memory() { std::free(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* data;
  size_t size;
};

class Scratch : public testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  const fs::path folder_ = unique_folder("scratch-test");
};

TEST_F(Scratch, HoldsWhatWasWrittenAndZerosElsewhereAndHasNoName) {
  constexpr size_t kBytes = 9 << 20, kPlace = 3 * ScratchFile::kAlignment;
  ScratchFile file(folder_, 2 * kBytes, "test");
  EXPECT_TRUE(fs::is_empty(folder_)) << "a name that a death would leave";
  Memory from(kBytes), to(kBytes);
  for (size_t i = 0; i < kBytes; ++i) from.data[i] = static_cast<char>(i * 7 + i / 4096);
  file.read(kPlace, to.data, kBytes).wait();
  EXPECT_TRUE(std::all_of(to.data, to.data + kBytes, [](char c) { return c == 0; }));
  file.write(kPlace, from.data, kBytes).wait();
  file.read(kPlace, to.data, kBytes).wait();
  EXPECT_EQ(std::memcmp(from.data, to.data, kBytes), 0);
  file.read(kPlace + kBytes, to.data, ScratchFile::kAlignment).wait();
  EXPECT_EQ(to.data[0], 0);
}

TEST_F(Scratch, PassesThePageCacheByWhereTheFolderAllowsThat) {
  Memory memory(ScratchFile::kAlignment);
  std::memset(memory.data, 5, memory.size);
  const int probe = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_DIRECT, 0600);
  const bool allows = probe >= 0 && ::pwrite(probe, memory.data, memory.size, 0) > 0;
  if (probe >= 0) ::close(probe);
  if (!allows) GTEST_SKIP() << folder_ << " knows no O_DIRECT";
  ScratchFile file(folder_, memory.size, "test");
  EXPECT_TRUE(file.is_direct());
  file.write(0, memory.data, memory.size).wait();
  EXPECT_TRUE(file.is_direct()) << "it was given up";
}

/// From now on this thread meets no file system with nameless files. False where that does not
/// work.
bool refuse_nameless_files() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(Scratch, UnlinksItsFileAtOnceWhereTmpfileIsRefused) {
  bool refused = false;
  std::thread([&] {
    refused = refuse_nameless_files();
    if (!refused) return;
    EXPECT_EQ(::open(folder_.c_str(), O_TMPFILE | O_RDWR, 0600), -1);
    Memory memory(ScratchFile::kAlignment);
    std::memset(memory.data, 5, memory.size);
    ScratchFile file(folder_, memory.size, "test");
    EXPECT_TRUE(fs::is_empty(folder_)) << "a name that a death would leave";
    file.write(0, memory.data, memory.size).wait();
    std::memset(memory.data, 0, memory.size);
    file.read(0, memory.data, memory.size).wait();
    EXPECT_EQ(memory.data[100], 5);
  }).join();
  if (!refused) GTEST_SKIP() << "seccomp does not work here";
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(Scratch, IsMemoryForAWhile) {
  constexpr size_t kBytes = 2 * ScratchFile::kAlignment;
  ScratchFile file(folder_, kBytes, "test");
  Memory memory(kBytes);
  std::memset(memory.data, 5, kBytes);
  for (int round = 0; round < 3; ++round) {
    file.write(0, memory.data, kBytes).wait();
    {
      const auto mapped = file.map(0, kBytes);
      EXPECT_EQ(static_cast<char*>(mapped.get())[4000], 5 + round);
      std::memset(mapped.get(), 6 + round, kBytes);
    }
    file.read(0, memory.data, kBytes).wait();
    EXPECT_EQ(memory.data[kBytes - 1], 6 + round);
  }
}

TEST_F(Scratch, SaysWhoseFileHasNoRoom) {
  const auto message = [&](const fs::path& folder) -> std::string {
    try {
      ScratchFile(folder, 1 << 20, "rank 3's");
    } catch (const FileError& error) {
      return error.what();
    }
    return "none";
  };
  {
    const SmallDisk disk(1 << 16);
    EXPECT_THAT(message(folder_), HasSubstr("rank 3's: cannot take 1048576 bytes in " +
                                            folder_.string() + ": File too large"));
  }
  EXPECT_THAT(message(folder_ / "none"), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(message("/proc"), HasSubstr("in /proc: "));
  EXPECT_EQ(message(folder_), "none");
}

TEST_F(Scratch, AThreadThatCannotStartIsAnError) {
  const FewThreads one(1);
  EXPECT_THROW(ScratchFile(folder_, 1 << 20, "rank 3's"), std::system_error);
}

TEST_F(Scratch, ATransferThatFailsIsToldByItsTicket) {
  ScratchFile file(folder_, ScratchFile::kAlignment, "rank 3's");
  Memory memory(ScratchFile::kAlignment);
  EXPECT_THROW(file.read(1 << 20, memory.data, memory.size).wait(), FileError) << "past its end";
  const SmallDisk disk(1 << 16);
  EXPECT_THROW(file.write(1 << 20, memory.data, memory.size).wait(), FileError);
  file.write(0, memory.data, memory.size).wait();
}

}  // namespace
}  // namespace convoy
