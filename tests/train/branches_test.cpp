#include <gmock/gmock.h>

#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "tests/train/folders_testing.h"

// Runs that end, go on after their end, and go back.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;

class Branches : public Folders {
 protected:
  Json json(const fs::path& file) const {
    return parse_json(read_file(folder_ / file), file.string());
  }
  End go_on(const std::string& from, int64_t steps) const {
    auto options = arguments(folder_ / "a", steps);
    options.resume_from_checkpoint = from;
    return train(options, one_device());
  }
};

/// Dies after a step.
struct Dies : Callback {
  explicit Dies(int64_t step) : step(step) {}
  void on_step(const StepTiming& timing) override {
    if (timing.step == step) fail<UsageError>("test", "it dies");
  }
  int64_t step;
};

TEST_F(Branches, ARunWithNothingLeftKeepsNoModelOfAnotherStep) {
  ASSERT_EQ(train(arguments(folder_ / "a", 4), one_device()).error, "");
  ASSERT_EQ(train(arguments(folder_ / "b", 6), one_device()).error, "");
  fs::copy(folder_ / "b/checkpoint-6", folder_ / "a/checkpoint-6", fs::copy_options::recursive);
  ASSERT_EQ(go_on("latest", 6).error, "");
  EXPECT_EQ(read_file(folder_ / "a/model.safetensors"), read_file(folder_ / "b/model.safetensors"));
  EXPECT_EQ(json("a/trainer_state.json").at("global_step"), 6);
  const auto results = json("a/train_results.json");
  EXPECT_TRUE(results.contains("train_loss"));
  EXPECT_FALSE(results.contains("train_runtime")) << "nothing was trained here";
}

TEST_F(Branches, OtherDataOfAsManyRowsAreTold) {
  ASSERT_EQ(train(arguments(folder_ / "a", 4), one_device()).error, "");
  auto options = arguments(folder_ / "a", 6);
  options.resume_from_checkpoint = "latest";
  const auto told = [&](int64_t longest) {
    auto said = std::make_shared<Said>();
    const auto data = random_sessions(45, 50, longest);
    EXPECT_EQ(train(options, one_device(), nullptr, said, data).error, "");
    return said->all;
  };
  options.per_device_train_batch_size = 2;  // of the same rows
  EXPECT_THAT(told(8), testing::Not(HasSubstr("other data")));
  options.max_steps = 8;
  EXPECT_THAT(told(7), HasSubstr("was trained on other data of as many rows"));
}

TEST_F(Branches, AModelAtTheBeginningOfABranchIsOnIt) {
  ASSERT_EQ(train(arguments(folder_ / "a", 6), one_device()).error, "");
  ASSERT_EQ(go_on((folder_ / "a/checkpoint-4").string(), 4).error, "");
  const auto state = json("a/trainer_state.json");
  const checkpoint::Line line(folder_ / "a");
  EXPECT_TRUE(checkpoint::is_on(line.lineage(), state.at("global_step"),
                                checkpoint::lineage_from_json(state.at("lineage"))));
}

TEST_F(Branches, AbandonedBranchIsResumedOnlyWithAWarning) {
  ASSERT_EQ(train(arguments(folder_ / "a", 6), one_device()).error, "");
  ASSERT_EQ(go_on((folder_ / "a/checkpoint-2").string(), 4).error, "");
  for (const char* gone : {"a/checkpoint-2", "a/checkpoint-4"}) fs::remove_all(folder_ / gone);
  auto options = arguments(folder_ / "a", 8);
  options.resume_from_checkpoint = "latest";
  auto said = std::make_shared<Said>();
  ASSERT_EQ(train(options, one_device(), nullptr, said).error, "");
  EXPECT_THAT(said->all, HasSubstr("no checkpoint is left of the branch"));
}

TEST_F(Branches, AModelThatIsNotWholeIsWrittenAgain) {
  auto options = arguments(folder_ / "a", 4);
  options.output.max_shard_size = "4KB";
  ASSERT_EQ(train(options, one_device()).error, "");
  const auto index = folder_ / "a/model.safetensors.index.json";
  const auto whole = read_file(index);
  const std::string shard = json("a/model.safetensors.index.json").at("weight_map").front();
  const auto weights = read_file(folder_ / "a" / shard);
  // As killed while the files of a model took their names.
  fs::remove(folder_ / "a/trainer_state.json");
  write_file(folder_ / "a" / shard, "of another model");
  options.resume_from_checkpoint = "latest";
  ASSERT_EQ(train(options, one_device()).error, "");
  EXPECT_EQ(read_file(index), whole);
  EXPECT_EQ(read_file(folder_ / "a" / shard), weights);
  EXPECT_EQ(json("a/trainer_state.json").at("model_step"), 4);
}

TEST_F(Branches, ModelOfAStepThatWasNotAskedForIsNotKept) {
  auto options = arguments(folder_ / "a", 6);
  options.eval_strategy = "steps";
  options.eval_steps = 2;
  options.greater_is_better = "true";  // an early one
  const auto eval_data = random_sessions(20, 50, 8);
  ASSERT_EQ(train(options, one_device(), eval_data).error, "");
  ASSERT_EQ(json("a/trainer_state.json").at("model_step"), 6);
  options.resume_from_checkpoint = "latest";
  options.load_best_model_at_end = true;
  const auto end = train(options, one_device(), eval_data);
  ASSERT_EQ(end.error, "");
  ASSERT_LT(end.state.best_step, 6);
  EXPECT_EQ(json("a/trainer_state.json").at("model_step"), end.state.best_step);
}

TEST_F(Branches, LatestIsOfTheBranchThatARunWentBackTo) {
  const auto whole = train(arguments(folder_ / "a", 8), one_device());
  ASSERT_EQ(whole.error, "");
  auto options = arguments(folder_ / "a", 8);
  options.resume_from_checkpoint = (folder_ / "a/checkpoint-2").string();
  const auto died =
      train(options, one_device(), nullptr, std::make_shared<Dies>(3));  // nothing is saved yet
  ASSERT_THAT(died.error, HasSubstr("it dies"));
  EXPECT_EQ(checkpoint::latest_checkpoint(folder_ / "a"), folder_ / "a/checkpoint-2");
  EXPECT_EQ(go_on("latest", 4).first_step, 3);
  EXPECT_EQ(checkpoint::latest_checkpoint(folder_ / "a"), folder_ / "a/checkpoint-4");
  EXPECT_EQ(json("a/checkpoint-4/trainer_state.json").at("lineage"), Json::parse("[[1, 2]]"));
  EXPECT_TRUE(fs::exists(folder_ / "a/checkpoint-8")) << "left behind, and not removed";
  // Its weights are others: with 4 steps in all, the learning rate fell sooner.
  EXPECT_EQ(go_on("latest", 8).first_step, 5);
}

TEST_F(Branches, RotationFreesWhatWasLeftBehindFirst) {
  ASSERT_EQ(train(arguments(folder_ / "a", 8), one_device()).error, "");
  auto options = arguments(folder_ / "a", 7);
  options.save_steps = 3;
  options.save_total_limit = 4;
  options.resume_from_checkpoint = (folder_ / "a/checkpoint-4").string();
  ASSERT_EQ(train(options, one_device()).error, "");
  std::vector<int64_t> left;
  for (const auto& [step, path] : checkpoint::list_checkpoints(folder_ / "a")) left.push_back(step);
  EXPECT_EQ(left, (std::vector<int64_t>{2, 4, 6, 7})) << "8 was left behind";
  // A branch of the branch.
  EXPECT_EQ(go_on((folder_ / "a/checkpoint-6").string(), 8).first_step, 7);
  EXPECT_EQ(json("a/checkpoint-8/trainer_state.json").at("lineage"),
            Json::parse("[[1, 4], [2, 6]]"));
  const checkpoint::Line line(folder_ / "a");
  EXPECT_EQ(line.checkpoints().front().first, 7);
}

TEST_F(Branches, ALineThatTheNextStartWritesIsTheSame) {
  auto options = arguments(folder_ / "a", 3);
  options.logging_steps = 2;
  const auto whole = train(options, one_device());
  ASSERT_EQ(whole.error, "");
  options.output.dir = (folder_ / "b").string();  // as killed before its last line
  options.resume_from_checkpoint = (folder_ / "a/checkpoint-3").string();
  const auto again = train(options, one_device());
  ASSERT_EQ(again.error, "");
  ASSERT_EQ(whole.state.log_history.back().at("step"), 3);
  EXPECT_GT(whole.state.log_history.back().at("grad_norm"), 0);
  EXPECT_EQ(again.state.log_history, whole.state.log_history);
}

TEST_F(Branches, MissingFilesOfAFinishedRunAreWrittenAgain) {
  files_.config["width"] = 8;
  files_.texts["run.toml"] = "text";
  ASSERT_EQ(train(arguments(folder_ / "a", 4), one_device()).error, "");
  const auto model = fs::last_write_time(folder_ / "a/model.safetensors");
  const auto loss = json("a/train_results.json").at("train_loss");
  for (const char* name : {"train_results.json", "all_results.json", "config.json", "run.toml"}) {
    fs::remove(folder_ / "a" / name);
    ASSERT_EQ(go_on("latest", 4).error, "");
    EXPECT_TRUE(fs::exists(folder_ / "a" / name)) << name;
    EXPECT_EQ(json("a/train_results.json").at("train_loss"), loss) << name;
    EXPECT_EQ(json("a/all_results.json").at("train_loss"), loss) << name;
  }
  EXPECT_EQ(fs::last_write_time(folder_ / "a/model.safetensors"), model) << "it is kept";
}

TEST_F(Branches, ResultsAreOfTheModelAndOfNoEarlierStep) {
  const auto eval_data = random_sessions(20, 50, 8);
  auto options = arguments(folder_ / "a", 5);
  options.eval_strategy = "steps";
  options.eval_steps = 2;
  options.per_device_eval_batch_size = 4;
  // Ends before the evaluation after its last step, as by a kill.
  ASSERT_EQ(train(options, one_device(), eval_data).error, "");
  EXPECT_FALSE(fs::exists(folder_ / "a/eval_results.json"));
  EXPECT_FALSE(json("a/all_results.json").contains("eval_loss"));
  options.resume_from_checkpoint = "latest";
  Trainer trainer(tiny_model(), options, random_sessions(45, 50, 8), eval_data, one_device());
  trainer.train();
  EXPECT_FALSE(trainer.evaluated_last_step());
  const auto end = trainer.evaluate_end();
  EXPECT_EQ(json("a/eval_results.json").at("eval_loss"), end.at("eval_loss"));
  // A kill between the model and the results of an evaluation that there was.
  options.max_steps = 6;
  ASSERT_EQ(train(options, one_device(), eval_data).error, "");
  const auto results = json("a/eval_results.json");
  fs::remove(folder_ / "a/eval_results.json");
  Trainer again(tiny_model(), options, random_sessions(45, 50, 8), eval_data, one_device());
  again.train();
  EXPECT_TRUE(again.evaluated_last_step());
  EXPECT_EQ(json("a/eval_results.json"), results);
}

TEST_F(Branches, AModelOfTheSameStepOfAnotherTrainingIsNotKept) {
  ASSERT_EQ(train(arguments(folder_ / "b", 4), one_device()).error, "");
  auto options = arguments(folder_ / "a", 4);
  options.learning_rate = 1e-3;
  options.save_strategy = "no";
  ASSERT_EQ(train(options, one_device()).error, "");
  ASSERT_EQ(go_on((folder_ / "b/checkpoint-4").string(), 4).error, "");
  EXPECT_TRUE(read_file(folder_ / "a/model.safetensors") ==
              read_file(folder_ / "b/model.safetensors"));
}

}  // namespace
}  // namespace convoy::train
