#include "convoy/base/scratch_file.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
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
