#include <gmock/gmock.h>

#include <atomic>
#include <csignal>

#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "tests/train/trainer_testing.h"

namespace convoy::train {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(TrainerTest, ResumingInMidEpochGivesTheSameBits) {
  auto run = [&](const std::string& name,
                 const std::function<void(options::TrainingArguments&)>& change) {
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

TEST_F(TrainerTest, RunStoppedByASignalLogsEachStepOnce) {
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
      auto stopper = std::make_shared<StopsAfter>(stop_after);
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
      auto stopper = std::make_shared<StopsAfter>(stop_after);
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

/// Asks the run to stop in the middle of its evaluation after `step`.
struct EvaluationStopper : Callback {
  explicit EvaluationStopper(int64_t step) : step(step) {}
  void on_step(const StepTiming& timing) override { at = timing.step; }
  void on_evaluate_step(int64_t done, int64_t /*samples*/) override {
    if (at != step) return;
    signal = SIGTERM;
    seen = done;
  }
  void on_evaluate(const Metrics& /*values*/, int64_t step) override { evaluated = step; }
  int64_t step, at = 0, seen = 0, evaluated = 0;
  std::atomic<int> signal = 0;
};

TEST_F(TrainerTest, ASignalEndsAnEvaluationWhichIsMadeUp) {
  const auto eval_data = random_sessions(40, 50, 8);
  const auto train = [&](const std::string& name, int ranks, int64_t stop_at) {
    Json found = Json::array();
    at::Tensor weights;
    const auto run = [&](const job::Job& job) {
      auto args = arguments(name);
      args.per_device_train_batch_size /= ranks;
      args.per_device_eval_batch_size = 4;
      args.eval_strategy = args.save_strategy = "epoch";
      if (stop_at > 0) {
        auto stopper = std::make_shared<EvaluationStopper>(stop_at);
        Trainer first(tiny_model(), args, data_, eval_data, job);
        first.add_callback(stopper);
        first.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
        first.train();
        EXPECT_EQ(first.stopped_by(), SIGTERM);
        EXPECT_EQ(first.state().global_step, stop_at);
        EXPECT_TRUE(first.state().evaluation_owed);
        EXPECT_FALSE(fs::exists(folder_ / name / "model.safetensors"));
        if (job.is_main()) {
          EXPECT_EQ(stopper->seen, 4 * ranks) << "the evaluation went on";
          EXPECT_LT(stopper->evaluated, stop_at);
        }
        args.resume_from_checkpoint = "latest";
      }
      Trainer trainer(tiny_model(), args, data_, eval_data, job);
      trainer.train();
      EXPECT_EQ(trainer.stopped_by(), 0);
      const auto all = all_weights(trainer);
      if (!job.is_main()) return;
      weights = all;
      for (const auto& entry : trainer.state().log_history) {
        if (entry.contains("eval_loss")) found.push_back({entry["step"], entry["eval_loss"]});
      }
    };
    if (ranks == 1) {
      run(job_);
    } else {
      run_ranks(ranks, run);
    }
    EXPECT_TRUE(fs::exists(folder_ / name / "model.safetensors"));
    return std::pair(found, weights);
  };
  for (const int ranks : {1, 2}) {
    const auto whole = train(fmt::format("whole-{}", ranks), ranks, 0);
    ASSERT_EQ(whole.first.size(), 2) << whole.first;
    for (const int64_t stop_at : {6, 12}) {
      const auto again = train(fmt::format("stopped-{}-{}", ranks, stop_at), ranks, stop_at);
      EXPECT_EQ(whole.first, again.first) << ranks << " ranks, step " << stop_at;
      EXPECT_TRUE(at::equal(whole.second, again.second)) << ranks << " ranks, step " << stop_at;
    }
  }
}

TEST_F(TrainerTest, ARunWithoutCheckpointsKeepsItsModelWhereItsLastEvaluationIsStopped) {
  auto args = arguments("out");
  args.eval_strategy = "epoch";
  args.save_strategy = "no";
  args.per_device_eval_batch_size = 4;
  auto stopper = std::make_shared<EvaluationStopper>(12);
  Trainer trainer(tiny_model(), args, data_, random_sessions(40, 50, 8), job_);
  trainer.add_callback(stopper);
  trainer.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
  trainer.train();
  EXPECT_EQ(trainer.stopped_by(), SIGTERM);
  EXPECT_TRUE(fs::exists(folder_ / "out/model.safetensors"));
}

TEST_F(TrainerTest, EvaluationAfterTheTrainingEndsAtASignal) {
  auto args = arguments("out");
  args.save_strategy = "no";
  args.per_device_eval_batch_size = 4;
  auto stopper = std::make_shared<EvaluationStopper>(12);
  Trainer trainer(tiny_model(), args, data_, random_sessions(40, 50, 8), job_);
  trainer.add_callback(stopper);
  trainer.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
  trainer.train();
  EXPECT_EQ(trainer.stopped_by(), 0);
  EXPECT_TRUE(trainer.evaluate_end().empty());
  EXPECT_EQ(trainer.stopped_by(), SIGTERM);
  EXPECT_EQ(stopper->seen, 4);
  EXPECT_FALSE(fs::exists(folder_ / "out/eval_results.json"));
}

/// Asks the run to stop while it saves.
struct SaveStopper : Callback {
  void on_save(const fs::path& /*folder*/) override { signal = SIGTERM; }
  void on_message(const std::string& text) override { messages += text + "\n"; }
  std::string messages;
  std::atomic<int> signal = 0;
};

TEST_F(TrainerTest, ASignalDuringASaveNeedsNoOtherOne) {
  auto args = arguments("out");
  args.save_strategy = "steps";
  args.save_steps = 4;
  args.save_async = false;
  auto stopper = std::make_shared<SaveStopper>();
  auto job = job_;
  job.environment.interrupt_grace = 1e-9;
  Trainer trainer(tiny_model(), args, data_, nullptr, job);
  trainer.add_callback(stopper);
  trainer.stop_on([&]() -> const std::atomic<int>& { return stopper->signal; });
  trainer.train();
  EXPECT_EQ(trainer.stopped_by(), SIGTERM);
  EXPECT_EQ(trainer.state().global_step, 4);
  EXPECT_THAT(stopper->messages, HasSubstr("after step 4; saved"));
  EXPECT_THAT(stopper->messages, HasSubstr("it would be lost; try --interrupt-grace"));
}

/// Keeps what a run tells at its start.
struct StartWatcher : Callback {
  void on_train_begin(const RunInfo& info) override {
    last_save = info.last_save;
    for (const auto& warning : info.warnings) warnings += warning + "\n";
  }
  double last_save = -1;
  std::string warnings;
};

TEST_F(TrainerTest, AResumedRunTellsAtItsStartHowLongItsLastCheckpointTook) {
  auto args = arguments("out");
  args.save_strategy = "steps";
  args.save_steps = 4;
  const auto start = [&](double grace) {
    auto job = job_;
    job.environment.interrupt_grace = grace;
    auto watcher = std::make_shared<StartWatcher>();
    Trainer trainer(tiny_model(), args, data_, nullptr, job);
    trainer.add_callback(watcher);
    trainer.train();
    return *watcher;
  };
  const auto first = start(1e-9);
  EXPECT_EQ(first.last_save, 0);
  EXPECT_THAT(first.warnings, Not(HasSubstr("saving the last checkpoint")));
  args.resume_from_checkpoint = "latest";
  const auto file = folder_ / "out/checkpoint-12/trainer_state.json";
  const double took = parse_json(read_file(file), file.string()).at("save_seconds");
  EXPECT_GT(took, 0);
  args.num_train_epochs = 3;
  const auto calm = start(3600);
  EXPECT_EQ(calm.last_save, took);
  EXPECT_THAT(calm.warnings, Not(HasSubstr("saving the last checkpoint")));
  args.num_train_epochs = 4;
  EXPECT_THAT(start(1e-9).warnings,
              HasSubstr("but ranks are killed 1e-09 s after a signal that stops the job, and it "
                        "would be lost; try --interrupt-grace"));
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
  job::Job dp = job_;
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
    run_ranks(ranks, [&](const job::Job& job) {
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

TEST_F(TrainerTest, DifferentTotalBatchMayDropTheLastRows) {
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

// Of rows that are all alike, whose order does not matter.
TEST_F(TrainerTest, ARunThatBeginsWithMomentsIsTheRestOfALongerOne) {
  const auto alike = dataset::make_map_dataset(24, [](const std::vector<int64_t>& rows) {
    const auto ids = at::arange(1, 7, at::kLong).repeat({std::ssize(rows), 1});
    return nn::Bundle{{"items", ids}, {"lengths", at::full({std::ssize(rows)}, 6, at::kLong)}};
  });
  const auto train = [&](const std::string& name, int64_t steps, const fs::path& weights,
                         const fs::path& moments, const job::Job& job) {
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
