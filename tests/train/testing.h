#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <atomic>
#include <csignal>

#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "convoy/data/loader.h"
#include "convoy/job/job.h"
#include "convoy/train/callback.h"
#include "convoy/train/checkpoints/model_files.h"
#include "convoy/train/scorer.h"
#include "convoy/train/state.h"
#include "convoy/train/trainer.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

namespace convoy::train {

/// A test with a folder of its own, on one thread.
class InFolder : public testing::Test {
 protected:
  InFolder() { at::set_num_threads(1); }
  ~InFolder() override { std::filesystem::remove_all(folder_); }

  const std::filesystem::path folder_ = unique_folder("convoy-train");
};

/// Asks the run to stop during the step after `step`.
struct StopsAfter : Callback {
  explicit StopsAfter(int64_t step) : step(step) {}
  void on_step(const StepTiming& timing) override {
    if (timing.step == step) signal = SIGTERM;
  }
  int64_t step;
  std::atomic<int> signal = 0;
};

/// Of sessions of at most eight of fifty "items".
inline parallel::ModelFactory tiny_model(double dropout = 0.1) {
  auto config = models::small_session({.width = 8, .layers = 1, .length = 8});
  config.dropout = dropout;
  return [config] { return models::make_session_model(config); };
}

/// Sessions of 2 to `max_length` items that follow a rule, with two more features, and of each
/// whether its first item is even, and a part of that item's number.
inline std::shared_ptr<dataset::Dataset> random_sessions(int64_t rows, int64_t items,
                                                         int64_t max_length) {
  return dataset::make_map_dataset(rows, [=](const std::vector<int64_t>& wanted) {
    std::vector<int64_t> lengths;
    for (int64_t row : wanted) {
      lengths.push_back(2 + static_cast<int64_t>(mix64(static_cast<uint64_t>(row)) %
                                                 static_cast<uint64_t>(max_length - 1)));
    }
    const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
    const auto count = static_cast<int64_t>(wanted.size());
    auto ids = at::zeros({count, longest}, at::kLong);
    auto kinds = at::zeros({count, longest}, at::kLong);
    auto prices = at::zeros({count, longest});
    for (int64_t i = 0; i < count; ++i) {
      int64_t id = 1 + wanted[static_cast<size_t>(i)] % (items - 1);
      for (int64_t t = 0; t < lengths[static_cast<size_t>(i)]; ++t) {
        ids[i][t] = id;
        kinds[i][t] = 1 + id % 6;
        prices[i][t] = 0.01 * static_cast<double>(id);
        id = 1 + (7 * id + 3) % (items - 1);
      }
    }
    const auto first = ids.select(1, 0);
    return nn::Bundle{{"items", ids},
                      {"even", 1 - first % 2},
                      {"share", first / static_cast<double>(items)},
                      {"kind", kinds},
                      {"price", prices},
                      {"picture", at::stack({prices, kinds - prices, 1 - kinds}, 2)},
                      {"taste", at::stack({first % 5, first % 7}, 1).to(at::kFloat)},
                      {"person", first % 9},
                      {"time", (ids * ids * 40).cumsum(1)},
                      {"lengths", at::tensor(lengths, at::kLong)}};
  });
}

/// One of `every` of its 48 rows has a "price" that fp16 cannot hold.
inline std::shared_ptr<dataset::Dataset> rare_prices(int64_t every = 24) {
  return dataset::make_map_dataset(48, [every](const std::vector<int64_t>& rows) {
    const auto count = static_cast<int64_t>(rows.size());
    auto items = at::tensor(rows, at::kLong).view({count, 1}).repeat({1, 5}) + 1;
    auto price = at::where(items % every == 0, 1e6, 1.0).to(at::kFloat);
    return nn::Bundle{
        {"items", items}, {"price", price}, {"lengths", at::full({count}, 5, at::kLong)}};
  });
}

/// Of so many steps, each of which is logged; writes nothing.
inline options::TrainingArguments short_run(int64_t per_device, int64_t accumulation,
                                            int64_t steps) {
  options::TrainingArguments out;
  out.per_device_train_batch_size = per_device;
  out.gradient_accumulation_steps = accumulation;
  out.max_steps = steps;
  out.learning_rate = 3e-3;
  out.weight_decay = 0.01;
  out.logging_steps = 1;
  out.save_strategy = "no";
  out.output.quiet = true;
  return out;
}

/// Keeps what was logged.
class Recorder : public Callback {
 public:
  void on_log(const LogRecord& record) override {
    losses.push_back(record.loss);
    norms.push_back(record.grad_norm);
  }
  std::vector<double> losses, norms;
};

/// Trains, and returns what the start warned of: on the main rank.
inline std::vector<std::string> warnings_of(Trainer& trainer) {
  struct Warnings : Callback {
    void on_train_begin(const RunInfo& info) override { all = info.warnings; }
    std::vector<std::string> all;
  };
  auto warned = std::make_shared<Warnings>();
  trainer.add_callback(warned);
  trainer.train();
  return warned->all;
}

/// Arguments of a quiet training of 4 steps, with a log line after every second and an evaluation
/// at the end.
inline options::TrainingArguments four_steps() {
  options::TrainingArguments out;
  out.per_device_train_batch_size = 8;
  out.max_steps = 4;
  out.logging_steps = 2;
  out.eval_strategy = "steps";
  out.eval_steps = 4;
  out.save_strategy = "no";
  out.output.quiet = true;
  return out;
}

inline job::Job one_device() {
  job::Job job;
  job.strategy = "single";
  job.devices = {at::kCPU};
  return job;
}

inline job::Job replicas(int count) {
  job::Job job;
  job.strategy = "dp";
  job.devices.assign(static_cast<size_t>(count), at::kCPU);
  return job;
}

inline job::Job rank_of(const comm::Group& group) {
  job::Job job = one_device();
  job.strategy = "ddp";
  job.environment.rank = group.rank();
  job.environment.world_size = group.size();
  job.groups = group;
  return job;
}

/// Runs `work(job)` as two ranks over Gloo, threads of this process.
inline void run_two_ranks(const std::function<void(const job::Job&)>& work) {
  comm::run_gloo_ranks(2, [&](const comm::Group& group) { work(rank_of(group)); });
}

/// The same for any number of ranks, with the sums of shared memory: in rank order.
inline void run_ranks(int size, const std::function<void(const job::Job&)>& work) {
  comm::run_thread_ranks(
      size, [&](const comm::Group& group) { work(rank_of(group)); }, std::chrono::minutes(2));
}

/// All weights of the model, of which each rank may hold a part: by all ranks.
inline at::Tensor all_weights(Trainer& trainer) {
  std::vector<at::Tensor> out;
  for (const auto& tensor : trainer.strategy().weights()) {
    auto whole = at::zeros(tensor.shape, tensor.dtype).view({-1});
    for (const auto& piece : tensor.pieces) {
      if (!piece.owned) continue;
      const auto values = piece.values.reshape({-1});
      parallel::each_row(piece, [&](int64_t begin, int64_t at, int64_t length) {
        whole.narrow(0, begin, length).copy_(values.narrow(0, at, length));
      });
    }
    trainer.strategy().processes().all_reduce(whole, comm::ReduceOp::Sum, "all weights");
    out.push_back(whole.to(at::kDouble));
  }
  return at::cat(out);
}

/// What a run came to.
struct Outcome {
  std::vector<double> losses, norms;
  int64_t skipped_steps = 0;
  at::Tensor weights;
};

inline Outcome outcome_of(const parallel::ModelFactory& factory,
                          std::shared_ptr<dataset::Dataset> data,
                          const options::TrainingArguments& arguments, const job::Job& job) {
  at::set_num_threads(1);
  Trainer trainer(factory, arguments, std::move(data), nullptr, job);
  auto recorder = std::make_shared<Recorder>();
  trainer.add_callback(recorder);
  trainer.train();
  return {recorder->losses, recorder->norms, trainer.state().skipped_steps, all_weights(trainer)};
}

/// Of all ranks that `run` starts, whose weights must agree.
inline Outcome outcome_of_all(
    int size, const std::function<Outcome(const job::Job&)>& train,
    const std::function<void(int, std::function<void(const job::Job&)>)>& run) {
  std::vector<Outcome> outcomes(static_cast<size_t>(size));
  run(size, [&](const job::Job& job) {
    outcomes[static_cast<size_t>(job.environment.rank)] = train(job);
  });
  for (const auto& other : outcomes) {
    EXPECT_EQ(outcomes[0].skipped_steps, other.skipped_steps) << "not all ranks skipped alike";
    EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights)) << "the ranks drifted apart";
  }
  return outcomes[0];
}

/// As two ranks over Gloo.
inline Outcome outcome_of_ddp(const std::function<Outcome(const job::Job&)>& train) {
  return outcome_of_all(2, train, [](int, const auto& work) { run_two_ranks(work); });
}

/// As ranks over shared memory, which add in rank order.
inline Outcome outcome_of_ranks(int size, const std::function<Outcome(const job::Job&)>& train) {
  return outcome_of_all(size, train, run_ranks);
}

inline void expect_same_bits(const Outcome& a, const Outcome& b, size_t steps) {
  ASSERT_EQ(a.losses.size(), steps);
  ASSERT_EQ(b.losses.size(), steps);
  for (size_t i = 0; i < steps; ++i) {
    ASSERT_EQ(a.losses[i], b.losses[i]) << "loss of step " << i + 1;
    ASSERT_EQ(a.norms[i], b.norms[i]) << "norm of step " << i + 1;
  }
  EXPECT_EQ(a.skipped_steps, b.skipped_steps);
  EXPECT_TRUE(at::equal(a.weights, b.weights));
}

/// Expects that replicas, recomputation and two ranks at each of these stages of ZeRO train as one
/// device that accumulates their rows, bit for bit, with a loss that falls. `train` trains with
/// arguments on a job; `arguments` makes them of rows of a device, accumulation and stage.
inline void expect_bits_of_one_device(
    const std::function<Outcome(const options::TrainingArguments&, const job::Job&)>& train,
    const std::function<options::TrainingArguments(int64_t, int64_t, int64_t)>& arguments,
    const std::vector<int64_t>& stages, size_t steps) {
  const auto alone = train(arguments(10, 2, 0), one_device());
  EXPECT_LT(alone.losses.back(), alone.losses.front());
  expect_same_bits(alone, train(arguments(10, 1, 0), replicas(2)), steps);
  auto again = arguments(10, 2, 0);
  again.gradient_checkpointing = true;
  expect_same_bits(alone, train(again, one_device()), steps);
  for (const int64_t zero : stages) {
    const auto of_rank = [&](const job::Job& job) { return train(arguments(10, 1, zero), job); };
    expect_same_bits(alone, outcome_of_ranks(2, of_rank), steps);
  }
}

}  // namespace convoy::train
