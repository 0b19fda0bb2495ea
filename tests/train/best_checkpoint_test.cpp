#include <gmock/gmock.h>

#include <atomic>
#include <csignal>

#include "convoy/base/files.h"
#include "tests/train/folders_testing.h"

// The checkpoint of the best evaluation, after somebody went back, copied, replaced or removed.
namespace convoy::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BestCheckpoints : public Folders {
 protected:
  /// Evaluates after every second step, of which the first is the best: against the grain.
  options::TrainingArguments options(const std::string& name, int64_t steps,
                                     const fs::path& from = {}) {
    auto out = arguments(folder_ / name, steps);
    out.lr_scheduler_type = "constant";
    out.save_steps = 1;
    out.eval_strategy = "steps";
    out.eval_steps = 2;
    out.load_best_model_at_end = true;
    out.metric_for_best_model = "loss";
    out.greater_is_better = "true";
    out.resume_from_checkpoint = from.string();
    return out;
  }

  End run(const options::TrainingArguments& options) {
    said_ = std::make_shared<Said>();
    auto end = train(options, one_device(), eval_data_, said_);
    EXPECT_EQ(end.error, "");
    return end;
  }

  std::string weights(const std::string& folder) const {
    return read_file(folder_ / folder / "model.safetensors");
  }
  Json model_step(const std::string& run) const {
    const auto path = folder_ / run / "trainer_state.json";
    return parse_json(read_file(path), path.string()).at("model_step");
  }

  /// The end that a run has without its best checkpoint.
  void expect_last_step(const std::string& run, int64_t step) const {
    EXPECT_THAT(said_->all, Not(HasSubstr("the model is the best one")));
    EXPECT_THAT(said_->all, HasSubstr("the model is that of the last step"));
    EXPECT_EQ(weights(run), weights(fmt::format("{}/checkpoint-{}", run, step)));
    EXPECT_EQ(model_step(run), step);
  }
  void expect_best(const std::string& run, const std::string& best) const {
    EXPECT_THAT(said_->all, HasSubstr("the model is the best one, of step 2"));
    EXPECT_THAT(said_->all, Not(HasSubstr("warning")));
    EXPECT_EQ(weights(run), best);
    EXPECT_EQ(model_step(run), 2);
  }

  std::shared_ptr<dataset::Dataset> eval_data_ = random_sessions(20, 50, 8);
  std::shared_ptr<Said> said_;
};

TEST_F(BestCheckpoints, CheckpointOfABranchDoesNotPassForTheBest) {
  ASSERT_EQ(run(options("a", 6)).state.best_step, 2);
  const auto best = weights("a/checkpoint-2");
  auto branch = options("a", 2, folder_ / "a/checkpoint-1");
  branch.learning_rate = 1e-5;
  run(branch);
  ASSERT_NE(weights("a/checkpoint-2"), best);
  EXPECT_THAT(said_->all, HasSubstr("a/checkpoint-2, which was the best one of checkpoint-3, "
                                    "checkpoint-4, checkpoint-5, checkpoint-6: "));
  run(options("a", 8, folder_ / "a/checkpoint-6"));
  EXPECT_THAT(said_->all, HasSubstr("unless a later evaluation is better"));
  EXPECT_THAT(said_->all, HasSubstr("another branch or run has saved its own"));
  expect_last_step("a", 8);
  // What a run repeats is the same.
  run(options("b", 6));
  run(options("b", 2, folder_ / "b/checkpoint-1"));
  EXPECT_THAT(said_->all, Not(HasSubstr("which was the best one")));
  run(options("b", 8, folder_ / "b/checkpoint-6"));
  expect_best("b", best);
}

TEST_F(BestCheckpoints, BestOneOfAnotherRunMayHaveBeenRetrained) {
  ASSERT_EQ(run(options("a", 6)).state.best_step, 2);
  const auto best = weights("a/checkpoint-2");
  run(options("b", 8, folder_ / "a/checkpoint-6"));
  expect_best("b", best);
  auto anew = options("a", 6);
  anew.learning_rate = 1e-4;
  anew.output.overwrite = true;
  ASSERT_EQ(run(anew).state.best_step, 2);
  run(options("b", 10, "latest"));
  expect_last_step("b", 10);
}

TEST_F(BestCheckpoints, CopiesFindTheirOwn) {
  ASSERT_EQ(run(options("a", 6)).state.best_step, 2);
  const auto best = weights("a/checkpoint-2");
  const auto copy = [&](const char* from, const char* to) {
    fs::copy(folder_ / "a" / from, folder_ / to, fs::copy_options::recursive);
  };
  copy("checkpoint-6", "copy");
  run(options("a", 8, folder_ / "copy"));
  expect_best("a", best);
  copy("checkpoint-2", "kept");  // itself the best, under another name
  fs::remove_all(folder_ / "a/checkpoint-2");
  for (const char* spelling : {"kept", "kept/"}) {
    run(options(spelling == std::string("kept") ? "b" : "c", 4, folder_ / spelling));
  }
  expect_best("b", best);
  expect_best("c", best);
}

TEST_F(BestCheckpoints, LostOneLeavesTheModelOfTheLastStep) {
  ASSERT_EQ(run(options("a", 6)).state.best_step, 2);
  fs::remove_all(folder_ / "a/checkpoint-2");
  run(options("a", 8, "latest"));
  expect_last_step("a", 8);
  run(options("a", 8, "latest"));  // nothing is left to do
  expect_last_step("a", 8);
}

TEST_F(BestCheckpoints, DamagedOneDoesNotFailTheTraining) {
  ASSERT_EQ(run(options("a", 6)).state.best_step, 2);
  const auto file = folder_ / "a/checkpoint-2/model.safetensors";
  auto bytes = read_file(file);
  bytes[bytes.size() - 3] ^= 1;
  write_file(file, bytes);
  const auto end = run(options("a", 8, "latest"));
  EXPECT_THAT(said_->all, HasSubstr("is not whole ("));
  expect_last_step("a", 8);
  // Where no checkpoint holds the last step.
  auto unsaved = options("b", 8, folder_ / "a/checkpoint-6");
  unsaved.save_strategy = "no";
  const auto same = run(unsaved);
  EXPECT_THAT(said_->all, HasSubstr("is not whole ("));
  EXPECT_TRUE(at::equal(same.weights, end.weights));
  EXPECT_EQ(model_step("b"), 8);
}

TEST_F(BestCheckpoints, AnEvaluationThatIsMadeUpIsThatOfItsCheckpoint) {
  auto stopped = options("a", 8);
  stopped.load_best_model_at_end = false;
  stopped.save_steps = 100;  // a save would look for the signal first
  auto stopper = std::make_shared<StopsAfter>(1);
  Trainer trainer(tiny_model(), stopped, random_sessions(45, 50, 8), eval_data_, one_device());
  trainer.add_callback(stopper);
  trainer.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
  trainer.train();
  ASSERT_TRUE(trainer.state().evaluation_owed);
  const auto best = weights("a/checkpoint-2");
  stopped.resume_from_checkpoint = "latest";
  stopped.max_steps = 3;
  const auto end = run(stopped);
  EXPECT_EQ(end.state.best_step, 2);
  EXPECT_EQ(end.state.best_model_checkpoint, "checkpoint-2");
  run(options("a", 6, "latest"));
  expect_best("a", best);
}

TEST(Histories, BeginAlikeWhateverTheTimes) {
  const auto entry = [](int64_t step, double loss, double seconds) {
    return Json{{"step", step}, {"eval_loss", loss}, {"eval_runtime", seconds}};
  };
  const Json history = Json::array({entry(1, 0.1, 7), entry(2, NAN, 8)});
  EXPECT_TRUE(begins_with(history, Json::array()));
  EXPECT_TRUE(begins_with(history, Json::array({entry(1, 0.1, 3)})));
  EXPECT_TRUE(begins_with(history, Json::parse(history.dump())));
  EXPECT_FALSE(begins_with(history, Json::array({entry(1, 0.1000001, 7)})));
  EXPECT_FALSE(begins_with(Json::array({entry(1, 0.1, 7)}), history));
}

}  // namespace
}  // namespace convoy::train
