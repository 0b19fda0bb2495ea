#include <cmath>
#include <fstream>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/formats/safetensors.h"
#include "tests/train/trainer_testing.h"

namespace convoy::train {
namespace {

TEST_F(TrainerTest, CountsStepsAsHuggingFaceDoes) {
  auto recorder = std::make_shared<Recorder>();
  Trainer trainer(tiny_model(), arguments("a"), data_, nullptr, job_);
  trainer.add_callback(recorder);
  auto metrics = trainer.train();
  EXPECT_EQ(trainer.state().global_step, 12);  // ceil(45 / 8) steps, twice
  EXPECT_DOUBLE_EQ(metrics.at("epoch"), 2);
  EXPECT_EQ(recorder->losses.size(), 12u);
  for (const char* file :
       {"model.safetensors", "trainer_state.json", "all_results.json", "train_results.json"}) {
    EXPECT_TRUE(fs::exists(folder_ / "a" / file)) << file;
  }
}

TEST_F(TrainerTest, EveryRowOnceAnEpochAlsoWithAShortLastBatch) {
  std::map<int64_t, int> seen;
  auto counting = dataset::make_map_dataset(45, [&](const std::vector<int64_t>& rows) {
    for (int64_t row : rows) ++seen[row];
    const auto count = static_cast<int64_t>(rows.size());
    return nn::Bundle{{"items", at::ones({count, 3}, at::kLong)},
                      {"lengths", at::full({count}, 3, at::kLong)}};
  });
  auto args = arguments("a");
  args.output.dir = "";  // else the first rows are read once more, for who resumes
  args.save_strategy = "no";
  args.gradient_accumulation_steps = 2;
  Trainer(tiny_model(), args, counting, nullptr, job_).train();
  EXPECT_EQ(seen.size(), 45u);
  for (const auto& [row, times] : seen) EXPECT_EQ(times, 2) << row;
}

TEST_F(TrainerTest, Fp16SkipsWhatOverflowsHalvesItsScaleAndResumesExactly) {
  auto config = models::small_session({.width = 8, .layers = 1, .length = 8});
  config.features.push_back({"price", false, 0});
  auto run = [&](const std::string& name, const std::string& from) {
    auto args = arguments(name);
    args.fp16 = true;
    args.save_strategy = "steps";
    args.save_steps = 4;
    args.resume_from_checkpoint = from;
    Trainer trainer([config] { return models::make_session_model(config); }, args, rare_prices(),
                    nullptr, job_);
    auto recorder = std::make_shared<Recorder>();
    trainer.add_callback(recorder);
    const auto metrics = trainer.train();
    if (from.empty()) {
      const auto& made = recorder->losses;
      EXPECT_DOUBLE_EQ(metrics.at("train_loss"), std::accumulate(made.begin(), made.end(), 0.0) /
                                                     static_cast<double>(made.size()));
    }
    auto state = trainer.state().to_json();
    state.erase("save_seconds");
    return std::pair(state, all_weights(trainer));
  };
  const auto [state, weights] = run("whole", "");
  const int64_t skipped = state["skipped_steps"];
  EXPECT_GT(skipped, 0);
  EXPECT_LE(skipped, 4) << "two rows overflow in each of two epochs";
  EXPECT_EQ(state["loss_scale"], std::exp2(16 - skipped));
  EXPECT_EQ(state["targets_per_sample"], 4);
  const auto again = run("again", (folder_ / "whole/checkpoint-4").string());
  EXPECT_EQ(again.first, state);
  EXPECT_TRUE(at::equal(again.second, weights));
}

TEST_F(TrainerTest, KeepsTheNewestCheckpoints) {
  auto args = arguments("a");
  args.save_strategy = "steps";
  args.save_steps = 0.25;  // a ratio of 12 steps
  args.save_total_limit = 2;
  Trainer(tiny_model(), args, data_, nullptr, job_).train();
  auto left = checkpoint::list_checkpoints(folder_ / "a");
  ASSERT_EQ(left.size(), 2u);
  EXPECT_EQ(left[0].first, 9);
  EXPECT_EQ(left[1].first, 12);
  formats::SafetensorsFile weights(left[1].second / "model.safetensors");
  EXPECT_EQ(weights.entry("transformer.h.0.attn.c_attn.weight").shape,
            (std::vector<int64_t>{8, 24}));
  formats::SafetensorsFile moments(left[1].second / "optimizer.safetensors");
  EXPECT_EQ(moments.entry("exp_avg.embeddings.items.weight").shape, (std::vector<int64_t>{50, 8}));
}

/// What a user adds to judge a model of his own.
class MeanRank : public Scorer {
 public:
  void add(const nn::Bundle& out) override {
    const auto ranks = out.at("target_rank").to(at::kDouble);
    sums_ += at::stack({ranks.sum(), ranks.le(20).sum().to(at::kDouble),
                        at::full({}, static_cast<double>(ranks.numel()), at::kDouble)});
  }
  void reduce(const comm::Group& group) override {
    group.all_reduce(sums_, comm::ReduceOp::Sum, "reduce ranks");
  }
  std::map<std::string, double> values(const std::string& prefix, double loss) const override {
    const auto sums = sums_ / sums_[2];
    return {{prefix + "mean_rank", sums[0].item<double>()},
            {prefix + "among_20", sums[1].item<double>()},
            {prefix + "perplexity", std::exp(loss)}};
  }

 private:
  at::Tensor sums_ = at::zeros({3}, at::kDouble);
};

TEST_F(TrainerTest, EvaluationDoesNotDependOnTheBatchSizeOrReplicas) {
  auto metrics = [&](int64_t batch, int replicas) {
    auto args = arguments("");
    args.output.dir.clear();
    args.per_device_eval_batch_size = batch;
    job::Job job = job_;
    if (replicas > 1) job.strategy = "dp";
    job.devices.assign(static_cast<size_t>(replicas), at::kCPU);
    Trainer trainer(tiny_model(), args, nullptr, nullptr, job);
    trainer.set_scorer([] { return std::make_unique<MeanRank>(); });
    return trainer.evaluate(*random_sessions(101, 50, 8), "eval_");
  };
  auto one = metrics(16, 1), odd = metrics(7, 1), two = metrics(16, 2);
  EXPECT_EQ(one.at("eval_samples"), 101);
  for (const char* key : {"eval_mean_rank", "eval_among_20"}) {
    EXPECT_EQ(one.at(key), odd.at(key)) << key;
    EXPECT_EQ(one.at(key), two.at(key)) << key;
  }
  EXPECT_DOUBLE_EQ(one.at("eval_perplexity"), std::exp(one.at("eval_loss")));
  EXPECT_NEAR(one.at("eval_loss"), two.at("eval_loss"), 1e-5);
  EXPECT_GT(one.at("eval_among_20"), 0.1);
}

TEST_F(TrainerTest, AFolderThatHoldsARunIsRefused) {
  Trainer(tiny_model(), arguments("a"), data_, nullptr, job_).train();
  expect_in("already holds a run; try --resume_from_checkpoint latest", error_of(arguments("a")));
  auto args = arguments("a");
  args.output.overwrite = true;
  EXPECT_EQ(error_of(args), "no error");
  std::ofstream(folder_ / "file") << "x";
  expect_in("is a file; expected a folder", error_of(arguments("file")));
}

TEST_F(TrainerTest, AFolderThatCannotBeWrittenIsFoundAtTheStart) {
  auto args = arguments("");
  args.output.dir = "/proc/convoy-run";
  expect_in("/proc/convoy-run", error_of(args));
}

TEST_F(TrainerTest, ACheckpointThatDoesNotFitIsRefused) {
  auto args = arguments("a");
  args.resume_from_checkpoint = "latest";
  expect_in("there is no checkpoint in", error_of(args));
  auto saving = arguments("b");
  saving.save_strategy = "epoch";
  Trainer(tiny_model(), saving, data_, nullptr, job_).train();
  args.resume_from_checkpoint = (folder_ / "b" / "checkpoint-6").string();
  expect_in("was made with 45 rows", error_of(args, random_sessions(46, 50, 8)));
  auto broken = folder_ / "b" / "checkpoint-6" / "model.safetensors";
  fs::resize_file(broken, 100);
  expect_in("model.safetensors", error_of(args));
}

TEST_F(TrainerTest, ALossThatIsNotANumberStopsAndNamesTheStep) {
  auto config = models::small_session({.width = 8, .heads = 4, .length = 8});
  config.features.push_back({"price", false, 0});
  auto poisoned = dataset::make_map_dataset(40, [](const std::vector<int64_t>& rows) {
    const auto count = static_cast<int64_t>(rows.size());
    return nn::Bundle{{"items", at::ones({count, 3}, at::kLong)},
                      {"price", at::full({count, 3}, NAN)},
                      {"lengths", at::full({count}, 3, at::kLong)}};
  });
  try {
    Trainer([config] { return models::make_session_model(config); }, arguments("nan"), poisoned,
            nullptr, job_)
        .train();
    FAIL();
  } catch (const NumericError& error) {
    expect_in("the loss of step 1 is not finite on rank 0", error.what());
  }
}

TEST_F(TrainerTest, ImpossibleSettingsAreExplained) {
  auto args = arguments("a");
  args.per_device_train_batch_size = 0;
  expect_in("train.per_device_train_batch_size = 0 is out of range", error_of(args));
  args = arguments("b");
  args.per_device_train_batch_size = 64;
  args.dataloader_drop_last = true;
  expect_in("has no full batch", error_of(args));
  expect_in("the data set is empty", error_of(arguments("c"), random_sessions(0, 50, 8)));
}

}  // namespace
}  // namespace convoy::train
