#include "convoy/launch/process.h"
#include "convoy/launch/report_failure.h"

#include <gtest/gtest.h>

#include <csignal>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/launch/error_file.h"
#include "tests/launch/processes_testing.h"

namespace convoy::launch {
namespace {

ProcessResult shell(const std::string& script, const ProcessOptions& options = {}) {
  return run_process({"/bin/sh", "-c", script}, options);
}

TEST(Process, CapturesBothStreamsAndTheExitCode) {
  const auto result = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "err\n");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(result.signal, 0);
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(shell("true").ok());
}

TEST(Process, CapturesMoreThanAPipeHolds) {
  EXPECT_EQ(shell("head -c 3000000 /dev/zero; head -c 300000 /dev/zero >&2").out.size(), 3000000u);
}

TEST(Process, PassesEnvironmentAndFolder) {
  const auto result =
      shell("echo $CONVOY_TEST $HOME; pwd; cat",
            {.env = {{"CONVOY_TEST", "a b"}, {"HOME", "x"}}, .working_directory = "/"});
  EXPECT_EQ(result.out, "a b x\n/\n");
}

TEST(Process, StopsAtTheTimeoutTogetherWithItsChildren) {
  const auto result = shell("sleep 30 & sleep 30", {.timeout_seconds = 0.2});
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_LT(result.seconds, 3);
}

TEST(Process, DoesNotWaitForWhatTheProgramLeftBehind) {
  const auto result = shell("echo started; sleep 30 &");
  EXPECT_EQ(result.out, "started\n");
  EXPECT_LT(result.seconds, 3);
}

TEST(Process, SeesTheEndAlthoughItsParentIgnoredThatChildrenEnd) {
  ::signal(SIGCHLD, SIG_IGN);
  EXPECT_EQ(shell("exit 7").exit_code, 7);
  ::signal(SIGCHLD, SIG_DFL);
}

TEST(Process, LeavesNoDaemonBehind) {
  const auto result = shell("(setsid sh -c 'sleep 0.5; exec sleep 30' & echo $!); sleep 0.2");
  EXPECT_TRUE(disappears(std::stoi(result.out)));
}

TEST(Process, MeasuresPeakMemoryOfChildrenToo) {
  const auto small = shell("true");
  const auto large = shell("head -c 50000000 /dev/zero | tail -c 1 | cat > /dev/null; exit 0");
  const auto huge = shell("x=$(head -c 60000000 /dev/zero | tr '\\0' x); true");
  EXPECT_GT(small.max_rss_bytes, 100'000);
  EXPECT_GT(huge.max_rss_bytes, 60'000'000);
  // A child begins as a copy of this process, which a sanitizer makes large.
  if (small.max_rss_bytes < 60'000'000) {
    EXPECT_GT(huge.max_rss_bytes, small.max_rss_bytes + 50'000'000);
  }
  EXPECT_TRUE(large.ok());
}

TEST(Process, NamesSignalsAndItself) {
  EXPECT_EQ(signal_name(SIGSEGV), "SIGSEGV");
  EXPECT_EQ(signal_name(200), "signal 200");
  ASSERT_EQ(this_program().size(), 1u);
  EXPECT_NE(this_program()[0].find("test_launch"), std::string::npos);
}

TEST(Process, SaysWhyAProgramDoesNotStart) {
  EXPECT_THROW(run_process({}), UsageError);
  EXPECT_THROW(run_process({"/bin/true"}, {.working_directory = "/no/such/folder"}), UsageError);
}

TEST(ErrorFile, KeepsTheFirstReasonInBothForms) {
  const auto folder = unique_folder("error-file-test");
  RankEnvironment env;
  EXPECT_FALSE(write_error_file(env, "NumericError", "not launched"));
  env.rank = 3;
  env.error_file = (folder / "e.json").string();
  EXPECT_FALSE(read_error_file(env.error_file));
  tell_step(7);
  tell_operation("clip");
  EXPECT_TRUE(write_error_file(env, "NumericError", "the loss is nan\xff", {2, 0}));
  tell_step(0);
  tell_operation("");
  EXPECT_TRUE(write_error_file(env, "CommunicationError", "later"));
  const auto error = read_error_file(env.error_file);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank, 3);
  EXPECT_EQ(error->kind, "NumericError");
  EXPECT_EQ(error->error.substr(0, 15), "the loss is nan");
  EXPECT_EQ(error->operation, "clip");
  EXPECT_EQ(error->step, 7);
  EXPECT_EQ(error->missing, (std::vector<int>{2, 0}));
  EXPECT_NEAR(error->time, wall_time(), 5);
  const Json json = parse_json(read_file(env.error_file), "e.json");
  EXPECT_TRUE(json["message"].is_string() &&
              json["timestamp"].is_number_integer());  // for torchrun
  std::filesystem::remove_all(folder);
}

TEST(ErrorFile, IsWrittenForAnExceptionThatAProgramCaught) {
  const auto folder = unique_folder("error-file-test");
  const auto report = [&](const std::exception& error, const std::string& name) {
    ::setenv("RANK", "1", 1);
    ::setenv("WORLD_SIZE", "2", 1);
    ::setenv("CONVOY_ERROR_FILE", (folder / name).c_str(), 1);
    const int code = report_failure(error);
    for (const char* variable : {"RANK", "WORLD_SIZE", "CONVOY_ERROR_FILE"}) ::unsetenv(variable);
    return code;
  };
  EXPECT_EQ(report(CommunicationError("[comm] rank 0 is gone", {0}), "e.json"), 3);
  const auto error = read_error_file(folder / "e.json");
  ASSERT_TRUE(error);
  EXPECT_EQ(error->rank, 1);
  EXPECT_EQ(error->kind, "CommunicationError");
  EXPECT_EQ(error->missing, std::vector<int>{0});
  EXPECT_EQ(error->exit_code, 3);
  EXPECT_EQ(report(std::runtime_error("no\nroom"), "f.json"), 1);
  EXPECT_EQ(report(UsageError("no"), "g.json"), 2);
  std::filesystem::remove_all(folder);
}

TEST(ErrorFile, ReadsTorchsFormAndIgnoresRubbish) {
  const auto folder = unique_folder("error-file-test");
  const auto path = folder / "e.json";
  write_file(
      path,
      R"({"message": {"message": "ValueError: bad batch", "extraInfo": {"timestamp": "170"}}})");
  const auto error = read_error_file(path);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind, "ValueError");
  EXPECT_EQ(error->error, "ValueError: bad batch");
  EXPECT_EQ(error->time, 170);
  for (const char* rubbish : {"", "[1]", "{", "{}", R"({"message": 5})", "null"}) {
    write_file(path, rubbish);
    EXPECT_FALSE(read_error_file(path)) << rubbish;
  }
  RankEnvironment env;
  env.error_file = "/proc/no/such/place.json";
  EXPECT_FALSE(write_error_file(env, "NumericError", "x"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace convoy::launch
