#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "convoy/train/scorer.h"
#include "tests/train/folders_testing.h"

// A disk that needs longer than a collective may wait. The calls are caught here, on their way from
// the library to the kernel.
namespace {

constexpr std::chrono::seconds kPatience{2}, kDisk{3};
constexpr int kPart = 5;  // the first write of a rank's part, behind the headers of all files

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
  void run(const options::TrainingArguments& options, std::atomic<int>& until_slow, int call) {
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
  for (const int call : {1, kPart}) {  // 1: a file's header
    run(options, until_slow_write, call);
    EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-2/manifest.json"));
  }
}

TEST_F(PacedDisk, FolderThatRankZeroFinishesIsWaitedFor) {
  run(arguments(folder_ / "a", 2), until_slow_sync, 4);
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-2/manifest.json"));
}

TEST_F(PacedDisk, ModelIsWaitedFor) {
  auto options = arguments(folder_ / "a", 2);
  options.save_strategy = "no";
  run(options, until_slow_write, 3);
}

/// Finds in an evaluation that the training must end: all ranks do, or this one.
struct Ends : Scorer {
  explicit Ends(bool all) : all(all) {}
  void add(const nn::Bundle&) override {
    if (all) fail_on_all_ranks<UsageError>("test", "it ends");
    fail<NumericError>("test", "it ends");
  }
  void reduce(const comm::Group&) override {}
  std::map<std::string, double> values(const std::string&, double) const override { return {}; }
  bool all;
};

TEST_F(PacedDisk, ACheckpointUnderWayIsKeptWhereAllRanksEndAndOnlyThere) {
  for (const bool all : {true, false}) {
    until_slow_write = kPart;  // beside the training: still under way after step 3
    auto options = arguments(folder_ / (all ? "all" : "one"), 10);
    options.eval_strategy = "steps";
    options.eval_steps = 3;
    comm::run_thread_ranks(
        2,
        [&](const comm::Group& group) {
          const bool ends = all || group.rank() == 1;
          Trainer trainer(tiny_model(), options, random_sessions(45, 50, 8),
                          random_sessions(20, 50, 8), rank_of(group));
          if (ends) trainer.set_scorer([all] { return std::make_unique<Ends>(all); });
          try {
            trainer.train();
            ADD_FAILURE() << "rank " << group.rank() << " went on";
          } catch (const Error& error) {
            EXPECT_EQ(ends, std::string(error.what()) == "[test] it ends") << error.what();
            group.abort(error.what());  // as the end of a process does
          }
        },
        kPatience);
    EXPECT_LE(until_slow_write, 0);
    EXPECT_EQ(fs::exists(fs::path(options.output.dir) / "checkpoint-2/manifest.json"), all);
  }
}

/// Three steps of two ranks: sessions of one item, after which nothing comes.
std::shared_ptr<dataset::Dataset> without_targets() {
  return dataset::make_map_dataset(24, [](const std::vector<int64_t>& rows) {
    const auto count = static_cast<int64_t>(rows.size());
    return nn::Bundle{{"items", at::ones({count, 1}, at::kLong)},
                      {"kind", at::ones({count, 1}, at::kLong)},
                      {"price", at::ones({count, 1})},
                      {"lengths", at::ones({count}, at::kLong)}};
  });
}

TEST_F(PacedDisk, ACheckpointUnderWayIsKeptWhereTheDataHasNoTarget) {
  until_slow_write = kPart;  // still under way at the end of the epoch
  const auto options = arguments(folder_ / "a", 10);
  std::atomic<int> told{0};
  comm::run_thread_ranks(
      2,
      [&](const comm::Group& group) {
        Trainer trainer(tiny_model(), options, without_targets(), nullptr, rank_of(group));
        trainer.set_files(files_);
        try {
          trainer.train();
        } catch (const UsageError& error) {
          told += std::string(error.what()).find("no row of the training data has a target") !=
                  std::string::npos;
        }
      },
      kPatience);
  EXPECT_LE(until_slow_write, 0);
  EXPECT_EQ(told, 2);
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-2/manifest.json"));
}

}  // namespace
}  // namespace convoy::train
