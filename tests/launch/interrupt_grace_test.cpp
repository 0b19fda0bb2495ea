#include "convoy/launch/supervise/interrupt_grace.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "convoy/base/files.h"

namespace convoy::launch {
namespace {

// As SLURM 22.05 writes it, shortened.
constexpr const char* kJob =
    "JobId=7 JobName=train UserId=u(1000) JobState=RUNNING Reason=None RunTime=00:01:40 "
    "TimeLimit=00:10:00 StartTime=2026-11-30T12:00:00 EndTime={} Deadline=N/A PreemptTime=None";

std::string job_that_ends(const std::string& time) {
  std::string text = kJob;
  return text.replace(text.find("{}"), 2, time);
}

std::string local_time(std::time_t time) {
  std::tm parts{};
  ::localtime_r(&time, &parts);
  std::string text(32, '\0');
  text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts));
  return text;
}

TEST(InterruptGrace, ReadsTheEndOfAJob) {
  const std::time_t end = 1'790'000'000;
  EXPECT_EQ(seconds_left(job_that_ends(local_time(end)), end - 120.5), 120.5);
  EXPECT_EQ(seconds_left(job_that_ends("Unknown"), end), std::nullopt);
  EXPECT_EQ(seconds_left("slurm_load_jobs error: Invalid job id specified", end), std::nullopt);
}

class Scontrol : public testing::Test {
 protected:
  Scontrol() {
    std::filesystem::create_directories(folder_);
    ::setenv("PATH", (folder_.string() + ":" + path_).c_str(), 1);
  }
  ~Scontrol() override {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(folder_);
  }
  void says(const std::string& script) const {
    const auto file = folder_ / "scontrol";
    write_file(file, "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  static double grace(const char* job = "7") {
    return grace_of_scheduler(
        [=](const char* name) { return std::string_view(name) == "SLURM_JOB_ID" ? job : nullptr; });
  }

  const std::string path_ = std::getenv("PATH");
  const std::filesystem::path folder_ = unique_folder("convoy-scontrol");
};

TEST_F(Scontrol, GivesWhatAJobHasLeft) {
  const auto in = [&](int seconds) {
    says("[ \"$*\" = '--oneliner show job 7' ] && echo '" +
         job_that_ends(local_time(std::time(nullptr) + seconds)) + "'");
    return grace();
  };
  EXPECT_NEAR(in(300), 295, 3);
  EXPECT_EQ(in(10), kInterruptGrace) << "SLURM itself waits as long after SIGTERM";
  EXPECT_EQ(in(86400), kMostSchedulerGrace);
}

TEST_F(Scontrol, IsNotNeeded) {
  EXPECT_EQ(grace(nullptr), kInterruptGrace);
  EXPECT_EQ(grace(), kInterruptGrace) << "no such program";
  says("exit 1");
  EXPECT_EQ(grace(), kInterruptGrace);
  says("exec sleep 60");
  EXPECT_EQ(grace(), kInterruptGrace) << "it does not answer";
}

}  // namespace
}  // namespace convoy::launch
