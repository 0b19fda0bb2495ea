#include "convoy/base/text.h"
#include "tests/cli/ranks_testing.h"

namespace convoy {
namespace {

class ReplayCommand : public Ranks {
 protected:
  void train(const std::string& more) {
    ASSERT_EQ(run("train --data.path syn --d_model 8 --n_layer 2 --n_head 2 --threads 1 "
                  "--max_steps 8 --logging_steps 1 --save_steps 3 --output_dir out --quiet "
                  "--per_device_train_batch_size 4 " +
                  more),
              0)
        << output_;
  }
  double logged_loss(int64_t step) {
    double loss = 0;
    for (const auto& text : split(read_file(folder_ / "out/log.jsonl"), '\n')) {
      const auto line = text.empty() ? Json() : parse_json(text, "log.jsonl");
      if (line.contains("loss") && line["step"] == step) loss = line["loss"];
    }
    return loss;
  }
};

TEST_F(ReplayCommand, HasTheLossOfTheRunAndNumbersOfEveryBlock) {
  train("--nproc 2 --zero 2");
  for (const int step : {2, 5}) {
    ASSERT_EQ(run(fmt::format("replay out --step {} --json 2>/dev/null", step)), 0) << output_;
    const auto found = parse_json(output_, "what it printed");
    EXPECT_NEAR(found["loss"].get<double>(), logged_loss(step), 1e-6) << step;
    std::map<std::string, int> kinds;
    for (const auto& block : found["blocks"]) {
      ++kinds[block["of"]];
      EXPECT_EQ(block["not_finite"], 0) << block;
      EXPECT_GT(block["norm"].get<double>(), 0) << block;
    }
    EXPECT_GE(kinds["output"], 4) << found;
    EXPECT_EQ(kinds["gradient"], kinds["output"] - 1) << found;
  }
}

TEST_F(ReplayCommand, NamesTheFirstBlockThatIsNotFinite) {
  train("");
  ASSERT_EQ(run("replay out --step 5"), 0) << output_;
  expect("Step 5, from checkpoint-3: loss ");
  ASSERT_EQ(shell("CONVOY_FAULT=nan@0:forward:5 $convoy replay out --step 5"), 1) << output_;
  expect("The first number that is not finite is in the output of ");
  expect("micro-batch 0, sample 0 of the step");
}

TEST_F(ReplayCommand, StartsFromNoCheckpointThatTheRunLeftBehind) {
  train("");
  const std::string back = "--save_steps 9 --learning_rate 0.05 --overwrite_output_dir false ";
  train(back + "--resume_from_checkpoint out/checkpoint-3");
  ASSERT_TRUE(std::filesystem::exists(folder_ / "out/checkpoint-6"));
  ASSERT_EQ(run("replay out --step 8 --json 2>/dev/null"), 0) << output_;
  EXPECT_NEAR(parse_json(output_, "what it printed")["loss"].get<double>(), logged_loss(8), 1e-6);
}

/// `convoy train` of twelve steps, with a state after each fifth.
const std::string kTrain =
    "$convoy train --data.path syn --d_model 8 --n_layer 2 --n_head 2 --threads 1 --max_steps 12 "
    "--logging_steps 1 --output_dir out --quiet --per_device_train_batch_size 4 ";

// run.toml reaches the run's own folder at its end.
TEST_F(ReplayCommand, TakesARunThatDidNotFinishFromItsCheckpoint) {
  const std::string fault = "CONVOY_FAULT=nan@0:backward:7 ";
  ASSERT_NE(shell(fault + kTrain + "--save_steps 5"), 0);
  expect("the gradient of step 7 is not finite");
  expect("convoy replay out --step 7 shows in which block");
  ASSERT_EQ(run("replay out --step 7"), 0) << output_;
  expect("Step 7, from checkpoint-5: loss ");
  ASSERT_EQ(shell(fault + "$convoy replay out --step 7"), 1) << output_;
  expect("What the blocks pass on is finite, but the step ended: ");
  ASSERT_EQ(shell("CONVOY_FAULT=nan@0:forward:7 $convoy replay out --step 7"), 1) << output_;
  expect("The first number that is not finite is in the output of ");
  ASSERT_EQ(run("replay out --step 3"), 0) << output_;
  expect("Step 3, from the start: loss ");
  EXPECT_FALSE(says("warning")) << output_;
}

TEST_F(ReplayCommand, SaysWhereARunSavedNothing) {
  ASSERT_NE(shell("CONVOY_FAULT=nan@0:backward:7 " + kTrain + "--save_strategy no"), 0);
  EXPECT_FALSE(says("convoy replay")) << output_;
  EXPECT_EQ(run("replay out --step 7"), 2);
  expect("ended before it saved anything");
  expect("--save_steps below 7");
}

TEST_F(ReplayCommand, HasTheOptionsAndRowsThatEachStepWasTrainedWith) {
  const std::string constant = kTrain + "--lr_scheduler_type constant --save_steps 3 ";
  ASSERT_EQ(shell(constant + "--max_steps 6"), 0) << output_;
  ASSERT_EQ(shell(constant + "--resume_from_checkpoint latest --learning_rate 0.1 "
                             "--per_device_train_batch_size 6"),
            0)
      << output_;
  for (const int step : {2, 5, 7, 11}) {
    ASSERT_EQ(run(fmt::format("replay out --step {} --json 2> told", step)), 0) << output_;
    EXPECT_EQ(read_file(folder_ / "told").find("the run logged"), std::string::npos) << step;
    const auto found = parse_json(output_, "what it printed");
    EXPECT_NEAR(found["loss"].get<double>(), logged_loss(step), 1e-6) << step;
    EXPECT_EQ(found["logged_loss"], logged_loss(step));
  }
}

TEST_F(ReplayCommand, WarnsWhereItIsNotTheStepOfTheRun) {
  // Of ids without names nobody can tell that they are others.
  std::filesystem::remove(folder_ / "syn/items.parquet");
  train("--learning_rate 0.05");
  ASSERT_EQ(run("data synthetic --output syn --items 30 --rows 300 --seed 9"), 0) << output_;
  std::filesystem::remove(folder_ / "syn/items.parquet");
  ASSERT_EQ(run("replay out --step 5"), 0) << output_;
  expect("warning: the run logged a loss of ");
  expect("it is not the run's step");
}

TEST_F(ReplayCommand, SaysOfWhichStepsALossIsTheMean) {
  train("--logging_steps 4");
  ASSERT_EQ(run("replay out --step 6"), 0) << output_;
  expect(", the mean of steps 5 to 8)");
  ASSERT_EQ(run("replay out --step 6 --json 2>/dev/null"), 0) << output_;
  EXPECT_TRUE(parse_json(output_, "what it printed")["logged_loss"].is_null());
}

TEST_F(ReplayCommand, SaysThatTheDataAreGone) {
  train("");
  std::filesystem::rename(folder_ / "syn", folder_ / "moved");
  EXPECT_EQ(run("replay out --step 5"), 1);
  expect("data.path = ");
  expect("syn is not there");
}

TEST_F(ReplayCommand, SaysWhatIsNoStepOfTheRun) {
  train("");
  EXPECT_EQ(run("replay out --step 99"), 2);
  expect("--step 99: the run ends with step 8");
  EXPECT_EQ(run("replay syn --step 1"), 2);
  expect("syn is no output folder of a run: it has no run.toml");
}

}  // namespace
}  // namespace convoy
