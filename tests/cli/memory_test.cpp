#include <unistd.h>

#include <fstream>

#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"

// Where the kernel ends processes for want of memory: a control group with little of it.
namespace convoy {
namespace {

class Memory : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "the sanitizer takes its own share";
#endif
    if (!make_group(700 << 20)) GTEST_SKIP() << "needs root and a control group of its own";
    make_sessions(3000);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove(group_, ignored);
    CommandTest::TearDown();
  }

  bool make_group(int64_t bytes) {
    for (const auto& line : split(read_file("/proc/self/cgroup"), '\n')) {
      const auto parts = split(line, ':');
      if (parts.size() != 3 || (parts[1] != "memory" && !parts[1].empty())) continue;
      const auto name = fmt::format("convoy-test-{}", ::getpid());
      group_ = "/sys/fs/cgroup/" + parts[1] + parts[2] + "/" + name;
      std::error_code failed;
      fs::create_directory(group_, failed);
      for (const char* limit : {"memory.limit_in_bytes", "memory.max"}) {
        if (failed || !fs::exists(group_ / limit)) continue;
        write(limit, bytes);
        if (fs::exists(group_ / "memory.swap.max")) write("memory.swap.max", 0);
        return true;
      }
      fs::remove(group_, failed);
    }
    return false;
  }

  void write(const char* file, int64_t value) const { std::ofstream(group_ / file) << value; }

  int within(const std::string& words) {
    return shell("echo $$ > " + (group_ / "cgroup.procs").string() + " && " + words);
  }

  static std::string train(int batch) {
    return "$convoy train --data.path syn --d_model 8 --n_layer 1 --n_inner 4000 --n_head 2 "
           "--threads 1 --max_steps 1 --per_device_train_batch_size " +
           std::to_string(batch);
  }

  fs::path group_;
};

TEST_F(Memory, AllocationBeyondTheLimitIsAnErrorAndNoKill) {
  EXPECT_EQ(within(train(2400)), 1) << output_;
  expect("convoy: error: [memory] there is no memory left for ");
  expect("this machine's control group allows 700.0 MiB, and ");
  expect("try a smaller per_device_train_batch_size");
  EXPECT_EQ(output_.find("warning"), std::string::npos) << output_;
}

TEST_F(Memory, LittleIsToldBeforeTheKernelEndsARankAndItsReportSaysSo) {
  EXPECT_EQ(within(train(700) + " --nproc 2"), 137) << output_;
  expect("warning: [memory] rank ");
  expect("are left on this host: the kernel");
  expect("was ended by SIGKILL while the kernel had no memory left and ended processes; it held ");
  expect("try     fewer ranks here, or options with which each takes less: `convoy estimate`");
}

TEST_F(Memory, ReportOfAnyProgramKnowsOfTheKernelsKiller) {
  EXPECT_EQ(within("$convoy launch -n 2 -- tail /dev/zero"), 137) << output_;
  expect("was ended by SIGKILL while the kernel had no memory left and ended processes; it held ");
  EXPECT_EQ(shell("$convoy launch -n 1 -- sh -c 'kill -9 $$'"), 137) << output_;
  expect("was ended by SIGKILL\n");
}

}  // namespace
}  // namespace convoy
