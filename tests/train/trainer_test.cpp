#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/formats/safetensors.h"
#include "tests/train/testing.h"

namespace convoy::train {
namespace {

namespace fs = std::filesystem;

class TrainerTest : public InFolder {
 protected:
  TrainingArguments arguments(const std::string& name) {
    TrainingArguments out;
    out.per_device_train_batch_size = 8;
    out.per_device_eval_batch_size = 16;
    out.num_train_epochs = 2;
    out.learning_rate = 1e-2;
    out.logging_steps = 1;
    out.save_strategy = "no";
    out.output.quiet = true;
    out.output.dir = (folder_ / name).string();
    return out;
  }

  std::string error_of(const TrainingArguments& arguments,
                       std::shared_ptr<Dataset> data = random_sessions(45, 50, 8)) {
    try {
      Trainer(tiny_model(), arguments, data, nullptr, job_).train();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  static void expect_in(const std::string& part, const std::string& text) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  Job job_ = one_device();
  std::shared_ptr<Dataset> data_ = random_sessions(45, 50, 8);
};

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
  auto counting = make_map_dataset(45, [&](const std::vector<int64_t>& rows) {
    for (int64_t row : rows) ++seen[row];
    const auto count = static_cast<int64_t>(rows.size());
    return nn::Bundle{{"items", at::ones({count, 3}, at::kLong)},
                      {"lengths", at::full({count}, 3, at::kLong)}};
  });
  auto args = arguments("a");
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
    return std::pair(trainer.state().to_json(), all_weights(trainer));
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

TEST_F(TrainerTest, ResumingInMidEpochGivesTheSameBits) {
  auto run = [&](const std::string& name, const std::function<void(TrainingArguments&)>& change) {
    auto args = arguments(name);
    change(args);
    Trainer trainer(tiny_model(), args, data_, nullptr, job_);
    trainer.train();
    return all_weights(trainer);
  };
  auto whole = run("whole", [](auto& a) { a.save_strategy = "steps", a.save_steps = 4; });
  EXPECT_EQ(checkpoint::list_checkpoints(folder_ / "whole").size(), 3u);
  for (const char* step : {"checkpoint-4", "checkpoint-8"}) {
    auto from = folder_ / "whole" / step;
    auto resumed = run(step, [&](auto& a) { a.resume_from_checkpoint = from.string(); });
    EXPECT_TRUE(at::equal(whole, resumed)) << step;
  }
  auto state = [&](const char* name) {
    return parse_json(read_file(folder_ / name / "trainer_state.json"), name);
  };
  EXPECT_EQ(state("whole")["log_history"], state("checkpoint-8")["log_history"]);
}

/// Asks the run to stop during the step after `step`.
struct Stopper : Callback {
  explicit Stopper(int64_t step) : step(step) {}
  void on_step(const StepTiming& timing) override {
    if (timing.step == step) signal = SIGTERM;
  }
  int64_t step;
  std::atomic<int> signal = 0;
};

TEST_F(TrainerTest, WhatASignalStopsLogsEachStepOnce) {
  const auto losses = [&](const std::string& name, int64_t stop_after) {
    auto args = arguments(name);
    args.logging_steps = 1;
    args.save_strategy = "epoch";
    std::vector<double> out;
    const auto run = [&](Trainer& trainer) {
      auto recorder = std::make_shared<Recorder>();
      trainer.add_callback(recorder);
      trainer.train();
      out.insert(out.end(), recorder->losses.begin(), recorder->losses.end());
    };
    if (stop_after > 0) {
      auto stopper = std::make_shared<Stopper>(stop_after);
      Trainer first(tiny_model(), args, data_, nullptr, job_);
      first.add_callback(stopper);
      first.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
      run(first);
      args.resume_from_checkpoint = "latest";
    }
    Trainer trainer(tiny_model(), args, data_, nullptr, job_);
    run(trainer);
    return std::pair(out, trainer.state().log_history);
  };
  EXPECT_EQ(losses("whole", 0), losses("stopped", 4));
}

TEST_F(TrainerTest, AnEvaluationThatASignalPreventedIsMadeUp) {
  auto evaluations = [&](const std::string& name, int64_t stop_after) {
    auto args = arguments(name);
    args.eval_strategy = args.save_strategy = "epoch";
    args.load_best_model_at_end = true;
    // Against the grain: the first epoch is the best.
    args.metric_for_best_model = "loss";
    args.greater_is_better = "true";
    auto eval_data = random_sessions(20, 50, 8);
    if (stop_after > 0) {
      auto stopper = std::make_shared<Stopper>(stop_after);
      Trainer first(tiny_model(), args, data_, eval_data, job_);
      first.add_callback(stopper);
      first.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
      first.train();
      EXPECT_EQ(first.state().global_step, stop_after + 1);
      args.resume_from_checkpoint = "latest";
    }
    Trainer trainer(tiny_model(), args, data_, eval_data, job_);
    trainer.train();
    EXPECT_EQ(trainer.state().best_step, 6);
    Json found = Json::array();
    for (const auto& entry : trainer.state().log_history) {
      if (!entry.contains("eval_loss")) continue;
      found.push_back({entry["step"], entry["eval_loss"]});
    }
    return std::pair(found, all_weights(trainer));
  };
  const auto whole = evaluations("whole", 0);
  ASSERT_EQ(whole.first.size(), 2) << whole.first;
  const auto at_epoch_end = evaluations("at_epoch_end", 5);
  EXPECT_EQ(whole.first, at_epoch_end.first);
  EXPECT_TRUE(at::equal(whole.second, at_epoch_end.second)) << "the best model is the same";
  EXPECT_EQ(whole.first, evaluations("elsewhere", 3).first);
}

TEST_F(TrainerTest, ResumingOnReplicasContinuesTheSameEpoch) {
  auto args = arguments("one");
  args.save_strategy = "steps";
  args.save_steps = 4;
  Trainer first(tiny_model(), args, data_, nullptr, job_);
  first.train();
  auto again = arguments("two");
  again.per_device_train_batch_size = 4;
  again.resume_from_checkpoint = (folder_ / "one" / "checkpoint-4").string();
  Job dp = job_;
  dp.strategy = "dp";
  dp.devices = {at::kCPU, at::kCPU};
  Trainer second(tiny_model(), again, data_, nullptr, dp);
  second.train();
  auto a = all_weights(first);
  auto b = all_weights(second);
  EXPECT_TRUE(at::allclose(a, b, 1e-3, 1e-5)) << (a - b).abs().max().item<double>();
}

TEST_F(TrainerTest, ResumingInMidEpochIsExactOnAnyNumberOfRanks) {
  // A step is five rows on three ranks, or three times five on one.
  auto run = [&](const std::string& name, int ranks, int64_t accumulation, const fs::path& from) {
    at::Tensor weights;
    run_ranks(ranks, [&](const Job& job) {
      auto args = arguments(name);
      args.per_device_train_batch_size = 5;
      args.gradient_accumulation_steps = accumulation;
      args.save_strategy = "steps";
      args.save_steps = 4;  // of three in an epoch
      args.resume_from_checkpoint = from.string();
      Trainer trainer(tiny_model(), args, data_, nullptr, job);
      trainer.train();
      const auto all = all_weights(trainer);
      if (job.is_main()) weights = all;
    });
    return weights;
  };
  const auto whole = run("whole", 3, 1, "");
  EXPECT_TRUE(at::equal(whole, run("one", 1, 3, folder_ / "whole/checkpoint-4")));
  EXPECT_TRUE(at::equal(whole, run("three", 3, 1, folder_ / "one/checkpoint-6")));
  EXPECT_TRUE(at::equal(whole, run("alone", 1, 3, "")));
  EXPECT_TRUE(at::equal(whole, run("again", 3, 1, folder_ / "alone/checkpoint-4")));
}

TEST_F(TrainerTest, AnotherTotalBatchMayDropTheLastRows) {
  auto args = arguments("a");
  args.dataloader_drop_last = true;
  args.save_strategy = "steps";
  args.save_steps = args.max_steps = 1;
  Trainer(tiny_model(), args, data_, nullptr, job_).train();
  args = arguments("b");
  args.dataloader_drop_last = true;
  args.per_device_train_batch_size = 10;
  args.max_steps = 6;
  args.resume_from_checkpoint = (folder_ / "a/checkpoint-1").string();
  Trainer second(tiny_model(), args, data_, nullptr, job_);
  second.train();
  // Rows 8 to 38 of 45 in three steps, then a new epoch.
  EXPECT_EQ(second.state().epoch_index, 1);
  EXPECT_EQ(second.state().epoch_position, 20);
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
    Job job = job_;
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
  auto poisoned = make_map_dataset(40, [](const std::vector<int64_t>& rows) {
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

// Of rows that are all alike, whose order does not matter.
TEST_F(TrainerTest, ARunThatBeginsWithMomentsIsTheRestOfALongerOne) {
  const auto alike = make_map_dataset(24, [](const std::vector<int64_t>& rows) {
    const auto ids = at::arange(1, 7, at::kLong).repeat({std::ssize(rows), 1});
    return nn::Bundle{{"items", ids}, {"lengths", at::full({std::ssize(rows)}, 6, at::kLong)}};
  });
  const auto train = [&](const std::string& name, int64_t steps, const fs::path& weights,
                         const fs::path& moments, const Job& job) {
    auto own = arguments(name);
    own.max_steps = steps;
    own.lr_scheduler_type = "constant";
    own.save_strategy = "epoch";
    own.per_device_train_batch_size = 4;
    own.gradient_accumulation_steps = job.strategy == "dp" ? 1 : 2;
    auto recorder = std::make_shared<Recorder>();
    Trainer trainer(tiny_model(0), own, alike, nullptr, job);
    if (!weights.empty()) trainer.load_weights(weights);
    if (!moments.empty()) trainer.load_moments(moments);
    trainer.add_callback(recorder);
    trainer.train();
    return recorder->losses;
  };
  const auto whole = train("whole", 9, "", "", job_);
  train("first", 3, "", "", job_);
  const auto at = folder_ / "first/checkpoint-3";
  const std::vector<double> rest(whole.begin() + 3, whole.begin() + 6);
  EXPECT_EQ(train("second", 3, at, at, job_), rest);
  EXPECT_EQ(train("two", 3, at, at, replicas(2)), rest);
  EXPECT_NE(train("without", 3, at, "", job_), rest);
  const auto then = folder_ / "second/checkpoint-3";
  EXPECT_EQ(train("third", 3, then, then, job_),
            (std::vector<double>(whole.begin() + 6, whole.end())));
}

}  // namespace
}  // namespace convoy::train
