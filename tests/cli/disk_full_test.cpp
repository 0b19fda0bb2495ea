#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// A disk that is full while a run saves, and then has space again, or has none.
namespace convoy {
namespace {

class DiskFull : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    make_sessions(100);
    ASSERT_EQ(run(train("calm", "")), 0) << output_;
    int64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "calm/checkpoint-2")) {
      bytes += static_cast<int64_t>(entry.file_size());
    }
    fs::create_directory(folder_ / "disk");
    const int64_t room = 8 * bytes;
    if (shell(fmt::format("mount -t tmpfs -o size={} none disk", room)) != 0) {
      GTEST_SKIP() << "no disk to fill: " << output_;
    }
    has_disk_ = true;
    // One checkpoint fits beside it, a second does not.
    ASSERT_EQ(shell(fmt::format("head -c {} /dev/zero > disk/filler", room - bytes * 3 / 2)), 0);
  }

  void TearDown() override {
    if (has_disk_) shell("umount -l disk");
    CommandTest::TearDown();
  }

  static std::string train(const std::string& out, const std::string& options) {
    return fmt::format(
        "train{}--d_model 64 --max_steps 6 --save_strategy steps --save_steps 2 --output_dir {} {}",
        kTiny, out, options);
  }

  /// Runs a training on the small disk, and `then` when it waits for space. Returns its exit code.
  int train_until_it_waits(const std::string& options, const std::string& then) {
    return shell(
        fmt::format(": > log; $convoy {} > log & pid=$!; "
                    "while ! grep -q 'ranks wait up to' log && kill -0 $pid; do "
                    "sleep .05; done; {}; wait $pid; code=$?; cat log; exit $code",
                    train("disk/out", options), then));
  }

 private:
  bool has_disk_ = false;
};

TEST_F(DiskFull, TrainingWaitsForSpaceAndGoesOn) {
  for (const std::string layout :
       {"", "--save_async false", "--nproc 2 --zero 1", "--strategy dp --replicas 2"}) {
    SCOPED_TRACE(layout);
    fs::remove_all(folder_ / "disk/out");
    fs::remove_all(folder_ / "calm");
    ASSERT_EQ(run(train("calm", layout)), 0) << output_;
    fs::copy(folder_ / "disk/filler", folder_ / "filler", fs::copy_options::overwrite_existing);
    ASSERT_EQ(train_until_it_waits(layout, "rm disk/filler"), 0) << output_;
    expect("No space left on device; try to free some space");
    expect("all ranks wait up to 600 s for space (--disk_full_wait)");
    EXPECT_TRUE(model_of("disk/out") == model_of("calm"));
    for (const char* name : {"checkpoint-2", "checkpoint-4", "checkpoint-6"}) {
      EXPECT_EQ(run(fmt::format("checkpoint verify disk/out/{}", name)), 0) << output_;
    }
    fs::remove_all(folder_ / "disk/out");
    fs::rename(folder_ / "filler", folder_ / "again");
    fs::copy(folder_ / "again", folder_ / "disk/filler");
  }
}

TEST_F(DiskFull, WaitEndsWithTheErrorOfTheDisk) {
  EXPECT_EQ(train_until_it_waits("--disk_full_wait 1", "true"), 1);
  expect("No space left on device");
  expect("for space (--disk_full_wait)");
  EXPECT_EQ(run("checkpoint verify disk/out/checkpoint-2"), 0) << output_;
  ASSERT_EQ(shell("rm -r disk/filler"), 0);
  ASSERT_EQ(run(train("disk/out", "--resume_from_checkpoint latest")), 0) << output_;
  EXPECT_TRUE(model_of("disk/out") == model_of("calm"));
}

TEST_F(DiskFull, NobodyWaitsWithoutTheOption) {
  EXPECT_EQ(run(train("disk/out", "--disk_full_wait 0")), 1);
  expect("No space left on device");
  EXPECT_FALSE(says("ranks wait")) << output_;
}

TEST_F(DiskFull, FirstSaveDoesNotWait) {
  ASSERT_EQ(shell("cat /dev/zero > disk/more; true"), 0);
  EXPECT_EQ(run(train("disk/out", "")), 1);
  expect("No space left on device");
  EXPECT_FALSE(says("ranks wait")) << output_;
}

TEST_F(DiskFull, SignalEndsTheWait) {
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(train_until_it_waits("--nproc 2", "kill -TERM $pid"), 128 + SIGTERM) << output_;
  expect("a signal stops the run, and the last steps are not saved: [formats] cannot write");
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(60));
}

}  // namespace
}  // namespace convoy
