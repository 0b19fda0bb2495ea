#include <fmt/format.h>

#include "convoy/base/options.h"
#include "tests/cli/command_testing.h"
#include "tests/tasks/event_log_testing.h"

namespace convoy {
namespace {

const std::string kTwoSteps =
    "train --d_model 8 --n_layer 1 --n_head 2 --per_device_train_batch_size 8 --max_steps 2 "
    "--threads 1 ";

/// Who decides whether results leave out what a person has had.
class ExcludeSeen : public CommandTest {
 protected:
  /// Sessions of users who walk round ten items, or two, so that all but two events repeat one.
  void make(const std::string& folder, bool repeats, const std::string& more = "") {
    std::vector<LogEvent> log;
    for (int user = 0; user < 10; ++user) {
      for (int i = 0; i < 8; ++i) {
        log.push_back({std::to_string(user), fmt::format("i{}", (user + i) % (repeats ? 2 : 10)),
                       LogTruth::kDay * (i / 4) + i});
      }
    }
    write_file(folder_ / (folder + ".csv"), csv_of(log));
    ASSERT_EQ(run(fmt::format("data sessions {0}.csv --output {0} {1}", folder, more)), 0)
        << output_;
  }

  /// As run.toml, the training's own results and those of `convoy eval` say.
  void expect_decided(const std::string& folder, bool excludes) {
    EXPECT_EQ(toml_values(folder_ / folder / "run.toml").at("train.exclude_seen"),
              excludes ? "true" : "false")
        << folder;
    EXPECT_EQ(json(folder + "/eval_results.json").at("eval_exclude_seen"), excludes ? 1 : 0);
    ASSERT_EQ(run("eval " + folder + " --json > eval.json"), 0) << output_;
    EXPECT_EQ(json("eval.json").at("eval_exclude_seen"), excludes ? 1 : 0) << folder;
  }
};

TEST_F(ExcludeSeen, FollowsTheData) {
  make("new", false);
  make("again", true);
  ASSERT_EQ(run(kTwoSteps + "--data.path new --output_dir rn"), 0) << output_;
  expect_decided("rn", true);
  ASSERT_EQ(run(kTwoSteps + "--data.path again --output_dir ra"), 0) << output_;
  expect_decided("ra", false);
  ASSERT_EQ(run(kTwoSteps + "--data.path new --exclude_seen false --output_dir rf"), 0) << output_;
  expect_decided("rf", false);
  EXPECT_EQ(run("eval rf --exclude_seen maybe"), 2);
  expect("expected one of auto, true, false");
  EXPECT_NE(run("eval rf --data nowhere"), 0);
  expect("there is no file nowhere; expected a Parquet file, or a folder with one");
}

TEST_F(ExcludeSeen, IsInheritedByRunsThatGoOnByResumesAndByLaterData) {
  make("d", false);
  EXPECT_TRUE(says("exclude_seen = true")) << output_;
  EXPECT_FALSE(says("exclude_seen = true, as d has it")) << output_;
  make("again", true, "--ids-from d");
  expect("exclude_seen = true, as d has it");
  EXPECT_TRUE(json("again/sessions.json").at("exclude_seen"));
  ASSERT_EQ(run(kTwoSteps + "--data.path d --exclude_seen false --output_dir r0"), 0) << output_;
  ASSERT_EQ(run(kTwoSteps + "--data.path d --model_name_or_path r0 --output_dir r1"), 0) << output_;
  expect_decided("r1", false);
  ASSERT_EQ(run(kTwoSteps + "--data.path again --model_name_or_path r1 --output_dir r2"), 0)
      << output_;
  expect_decided("r2", false);
  ASSERT_EQ(run("train r0/run.toml --data.path again --output_dir r3"), 0) << output_;
  expect_decided("r3", false);

  ASSERT_EQ(run(kTwoSteps + "--data.path d --save_steps 1 --output_dir out"), 0) << output_;
  write_file(folder_ / "d/sessions.json", "{\"exclude_seen\": false}");
  ASSERT_EQ(run(kTwoSteps + "--data.path d --save_steps 1 --max_steps 4 --output_dir out "
                            "--resume_from_checkpoint latest"),
            0)
      << output_;
  expect_decided("out", true);
}

TEST_F(ExcludeSeen, HoldsInAllWindows) {
  make("w", false, "--windows day");
  ASSERT_EQ(run(kTwoSteps + "--windows w --output_dir rw"), 0) << output_;
  expect_decided("rw/0001", true);
  ASSERT_EQ(run(kTwoSteps + "--windows w --exclude_seen false --output_dir rf"), 0) << output_;
  expect_decided("rf/0001", false);
  const auto results = json("rw/results_over_time.json");
  EXPECT_EQ(results.at("windows")[0].at("metrics").at("eval_exclude_seen"), 1);
  EXPECT_EQ(results.at("average").at("eval_exclude_seen"), 1);
}

TEST_F(ExcludeSeen, IsOffForFoldersOfOtherProgramsAndTheirParity) {
  make("d", false);
  ASSERT_EQ(run(kTwoSteps + "--data.path d --parity transformers4rec --output_dir rp"), 0)
      << output_;
  expect_decided("rp", false);
  for (const char* file : {"sessions.json", "seen.parquet", "items.parquet", "users.parquet"}) {
    fs::remove(folder_ / "d" / file);
  }
  ASSERT_EQ(run(kTwoSteps + "--data.path d --output_dir rd"), 0) << output_;
  expect_decided("rd", false);
  ASSERT_EQ(run("eval rd --exclude_seen true"), 0) << output_;
  expect("exclude_seen leaves out the items of each row alone: there is no seen.parquet");
}

}  // namespace
}  // namespace convoy
