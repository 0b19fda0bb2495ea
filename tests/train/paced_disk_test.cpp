#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/train/folders_testing.h"

// A disk that needs longer than a collective may wait. The calls are caught here, on their way from
// the library to the kernel.
namespace {

constexpr std::chrono::seconds kPatience{2}, kDisk{3};

std::atomic<int> until_slow_write{0}, until_slow_sync{0};  // calls; 0: none is

/// A call of one rank, while the others wait.
void take_time(std::atomic<int>& until_slow) {
  if (until_slow > 0 && until_slow.fetch_sub(1) == 1) std::this_thread::sleep_for(kDisk);
}

}  // namespace

extern "C" {

ssize_t pwrite(int file, const void* data, size_t bytes, off_t place) {
  take_time(until_slow_write);
  return ::syscall(SYS_pwrite64, file, data, bytes, place);
}
int fsync(int file) {
  take_time(until_slow_sync);
  return static_cast<int>(::syscall(SYS_fsync, file));
}

}  // extern "C"

namespace convoy::train {
namespace {

class PacedDisk : public Folders {
 protected:
  /// Two ranks, one of whose calls is slow: which of them.
  void run(const TrainingArguments& options, std::atomic<int>& until_slow, int call) {
    SCOPED_TRACE(call);
    until_slow = call;
    std::atomic<int> well{0};
    comm::run_thread_ranks(
        2,
        [&](const comm::Group& group) {
          const auto error = train(options, rank_of(group)).error;
          EXPECT_EQ(error, "");
          well += error.empty();
        },
        kPatience);
    EXPECT_LE(until_slow, 0) << "there were not as many";
    EXPECT_EQ(well, 2);
    EXPECT_TRUE(fs::exists(folder_ / "a/model.safetensors"));
  }
};

TEST_F(PacedDisk, ACheckpointIsWaitedFor) {
  auto options = arguments(folder_ / "a", 2);
  options.save_async = false;
  options.output.overwrite = true;
  for (const int call : {1, 5}) {  // a file's header, a rank's part
    run(options, until_slow_write, call);
    EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-2/manifest.json"));
  }
}

TEST_F(PacedDisk, TheFolderThatRankZeroFinishesIsWaitedFor) {
  run(arguments(folder_ / "a", 2), until_slow_sync, 4);
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-2/manifest.json"));
}

TEST_F(PacedDisk, TheModelIsWaitedFor) {
  auto options = arguments(folder_ / "a", 2);
  options.save_strategy = "no";
  run(options, until_slow_write, 3);
}

}  // namespace
}  // namespace convoy::train
