#include "convoy/report/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::report {
namespace {

using testing::HasSubstr;
using testing::Not;

class RunPage : public testing::Test {
 protected:
  RunPage() { make_folder(folder_); }
  ~RunPage() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    make_folder((folder_ / name).parent_path());
    write_file(folder_ / name, text);
  }

  const std::filesystem::path folder_ = unique_folder("convoy-page");
};

TEST_F(RunPage, ARunUnderWayIsReadAsFarAsItIsWritten) {
  write("log.jsonl",
        "{\"step\": 10, \"loss\": 2.5, \"memory_bytes\": 100}\n"
        "{\"message\": \"a warning\"}\n"
        "{\"step\": 10, \"eval_loss\": 2.25}\n"
        "nonsense\n{\"message\": 7}\n"
        "{\"step\": 20, \"loss\": null, \"grad_norm\": 1}\n"
        "{\"step\": 30, \"los");
  write("run.toml", "[train]\nlearning_rate = 0.001\n[data]\npath = \"x\"\n");
  const auto run = read_run(folder_);
  EXPECT_EQ(run.name, folder_.filename().string());
  EXPECT_EQ(run.steps, (std::vector<double>{10, 10, 20}));
  EXPECT_EQ(run.columns.at("loss"), std::vector<double>{2.5});
  EXPECT_TRUE(std::isnan(run.columns.at("grad_norm").at(0)));
  EXPECT_EQ(run.columns.at("grad_norm").at(2), 1);
  EXPECT_EQ(run.results.at("eval_loss"), 2.25);
  EXPECT_EQ(run.messages,
            (std::vector<std::string>{"a warning", "", "1 line of log.jsonl made no sense"}));
  EXPECT_EQ(run.options.at("train.learning_rate"), "0.001");
  EXPECT_FALSE(run.ended);
  EXPECT_TRUE(run.plan.is_null());
}

TEST_F(RunPage, FinishedRunHasItsResultsAndTheLastPlan) {
  write("log.jsonl", "{\"step\": 1, \"loss\": 2}\n{\"train_loss\": 2, \"train_runtime\": 1}\n");
  write("all_results.json", "{\"eval_loss\": 3, \"train_loss\": 2}");
  write("checkpoint-10/plan.json", "{\"split\": \"left behind\"}");
  write("checkpoint-8/plan.json", "{\"split\": \"old\"}");
  write("checkpoint-9/plan.json", "{\"split\": \"new\"}");
  std::vector<std::filesystem::path> checkpoints;
  for (const char* step : {"10", "8", "9", "11"}) {
    checkpoints.push_back(folder_ / (std::string("checkpoint-") + step));
  }
  const auto run = read_run(folder_, checkpoints);
  EXPECT_TRUE(run.ended);
  EXPECT_EQ(run.results.at("eval_loss"), 3);
  EXPECT_EQ(run.plan.at("split"), "new");
}

TEST_F(RunPage, StepsThatAreMadeAgainCountOnce) {
  write(
      "log.jsonl",
      "{\"step\": 1, \"loss\": 9}\n{\"step\": 2, \"loss\": 8}\n{\"step\": 2, \"eval_loss\": 7}\n"
      "{\"step\": 3, \"loss\": 6, \"grad_norm\": 1}\n{\"step\": 2, \"loss\": 5}\n"
      "{\"step\": 2, \"loss\": 4}\n{\"step\": 2, \"eval_loss\": 3}\n{\"step\": 3, \"loss\": 2}\n");
  const auto run = read_run(folder_);
  EXPECT_EQ(run.steps, (std::vector<double>{1, 2, 2, 3}));
  EXPECT_EQ(run.columns.at("loss").at(1), 4);
  EXPECT_EQ(run.columns.at("loss").at(3), 2);
  EXPECT_EQ(run.columns.at("eval_loss").at(2), 3);
  for (const double value : run.columns.at("grad_norm")) EXPECT_TRUE(std::isnan(value));
}

TEST_F(RunPage, ARunThatGoesOnAfterItsEndHasNotEnded) {
  write("all_results.json", "{\"eval_loss\": 3}");
  const std::string ended = "{\"step\": 1, \"loss\": 2}\n{\"train_loss\": 2}\n";
  write("log.jsonl", ended + "{\"step\": 2, \"loss\": 1, \"eval_loss\": 1}\n");
  auto run = read_run(folder_);
  EXPECT_FALSE(run.ended);
  EXPECT_EQ(run.results.at("eval_loss"), 1);
  write("log.jsonl", ended);
  write("all_results.json", "{\"eval_loss\"");
  run = read_run(folder_);
  EXPECT_TRUE(run.ended);
  EXPECT_EQ(run.messages, std::vector<std::string>{"all_results.json made no sense"});
}

TEST_F(RunPage, ALongLogIsThinnedOutToMeans) {
  RunRecord run;
  run.steps = {1, 2, 3, 4, 5};
  run.columns["loss"] = {4, 2, NAN, 1, 3};
  run.columns["eval_loss"] = {NAN, NAN, 7};
  thin_out(run, 5);
  EXPECT_EQ(run.steps.size(), 5U);
  EXPECT_TRUE(run.messages.empty());
  thin_out(run, 3);
  EXPECT_EQ(run.steps, (std::vector<double>{2, 4, 5}));
  EXPECT_EQ(run.columns.at("loss"), (std::vector<double>{3, 1, 3}));
  EXPECT_TRUE(std::isnan(run.columns.at("eval_loss").at(0)));
  EXPECT_EQ(run.columns.at("eval_loss").at(1), 7);
  EXPECT_EQ(run.messages,
            std::vector<std::string>{"the log has 5 steps: shown are means of 2 neighbours"});
}

TEST_F(RunPage, HoldsTheRunsAndNothingThatEndsItsScript) {
  RunRecord run;
  run.name = "a</script><b>";
  run.steps = {1};
  run.columns["loss"] = {1.0 / 3};
  run.results = {{"eval_ndcg_at_10", 1}, {"eval_spent_rmse", 2}, {"eval_runtime", 3}};
  const auto page = run_page({run, run}, {.picture = "<svg></svg>"});
  EXPECT_THAT(page, HasSubstr("a\\u003c/script>\\u003cb>"));
  EXPECT_THAT(page, Not(HasSubstr("a</script>")));
  EXPECT_THAT(page, HasSubstr("\"loss\":[0.3333333]"));
  EXPECT_THAT(page, HasSubstr("\"greater_is_better\":{\"eval_ndcg_at_10\":true,"
                              "\"eval_spent_rmse\":false}"));
  EXPECT_THAT(page, HasSubstr("\"picture\":\"\\u003csvg>"));
  EXPECT_THAT(page, Not(HasSubstr("/*DATA*/")));
  EXPECT_THAT(page, testing::StartsWith("<!doctype html>"));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
}

TEST_F(RunPage, EachStartIsReadAndTheTimeOfAllIsSummed) {
  write("log.jsonl",
        "{\"start\": {\"host\": \"a\", \"num_parameters\": 5}}\n{\"step\": 1, \"loss\": 2}\n"
        "{\"train_loss\": 2, \"train_runtime\": 10}\n{\"start\": {\"host\": \"b\"}}\n"
        "{\"step\": 2, \"loss\": 1}\n{\"train_loss\": 1, \"train_runtime\": 5}\n");
  const auto run = read_run(folder_);
  EXPECT_EQ(run.start.at("host"), "b");
  EXPECT_EQ(run.results.at("runtime_of_all_starts"), 15);
  EXPECT_EQ(run.steps.size(), 2U);
  EXPECT_THAT(run_page({run}), HasSubstr("\"start\":{\"host\":\"b\"}"));
}

TEST_F(RunPage, ARunOverWindowsHasWhatItsWindowsTell) {
  write("results_over_time.json",
        "{\"average\": {\"eval_ndcg_at_10\": 0.25}, \"windows\": [{\"trained_on\": \"0001\", "
        "\"evaluated_on\": \"0002\", \"metrics\": {\"eval_ndcg_at_10\": 0.25}}]}");
  write("0001/log.jsonl",
        "{\"start\": {\"host\": \"a\"}}\n{\"step\": 1, \"loss\": 2}\n"
        "{\"train_loss\": 2, \"train_runtime\": 10, \"peak_memory_bytes_per_rank\": 7}\n");
  write("0001/run.toml",
        "[model]\nbody = \"sasrec\"\n[data]\ntrain = \"weeks/0001/train.parquet\"\n");
  const auto run = read_run(folder_);
  EXPECT_TRUE(run.ended);
  EXPECT_EQ(run.results.at("eval_ndcg_at_10"), 0.25);
  EXPECT_EQ(run.results.at("train_runtime"), 10);
  EXPECT_EQ(run.results.at("peak_memory_bytes_per_rank"), 7);
  EXPECT_EQ(run.start.at("host"), "a");
  EXPECT_EQ(run.options.at("model.body"), "sasrec");
  EXPECT_EQ(run.options.at("data.windows"), "weeks");
  EXPECT_FALSE(run.options.contains("data.train"));
}

TEST_F(RunPage, AFolderThatIsNoRunIsToldSo) {
  try {
    read_run(folder_);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("is no output folder of a run"));
  }
}

}  // namespace
}  // namespace convoy::report
