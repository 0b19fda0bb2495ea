#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/run/replica.h"
#include "convoy/parallel/run_plan/run_plan.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"
#include "tests/parallel_torch/own_blocks.h"

// Stages of a pipeline, each a thread.
namespace convoy::parallel {

constexpr int64_t kPipelineSteps = 3;

/// A training of a small model, of several stages or on one device.
struct PipelineTrial {
  std::string schedule = "1f1b";
  int stages = 2;
  int data = 1;  // ranks that share samples
  int zero = 0;
  int64_t micro_batches = 2;
  at::ScalarType dtype = at::kFloat;
  bool recomputes = false;
  /// llama; gpt2; bert; session; own, a list of blocks that is no family's; t5, of which several
  /// tensors go from stage to stage, some with gradients. The body of a session has a tied table
  /// always.
  std::string model = "llama";
  bool tied = false;
  std::optional<parallel::Placement> placement = {};
  int virtual_stages = 2;
  int64_t layers = 2;  ///< and two blocks more, at least
  double max_norm = 1;
  int64_t steps = kPipelineSteps;

  ReplicaOptions options() const {
    ReplicaOptions out;
    // Gradients that are zero but for rounding (attention's key biases) must not make full steps.
    out.optimizer = optim::make_optimizer(optim::kDefaultOptimizer, {.epsilon = 1e-4});
    out.parallelism.micro_batches = micro_batches;
    out.compute_dtype = dtype;
    out.parallelism.zero = zero;
    out.parallelism.bucket_bytes = micro_batches % 2 == 0 ? 25 << 20 : 0;
    out.parallelism.recompute = recomputes;
    out.parallelism.pipeline.schedule = parallel::parse_schedule(schedule);
    out.parallelism.pipeline.placement = placement;
    out.parallelism.pipeline.virtual_stages = virtual_stages;
    return out;
  }

  std::string name() const {
    return fmt::format("{}{}{}: {}{}, {} stages, {} data, zero {}, {} micro-batches{}{}",
                       tied ? "tied " : "", model, dtype == at::kFloat ? "" : " in bf16", schedule,
                       placement ? fmt::format(" in a {}", parallel::name_of(*placement)) : "",
                       stages, data, zero, micro_batches, recomputes ? ", recomputes" : "",
                       max_norm == 1 ? "" : fmt::format(", clipped to {}", max_norm)) +
           (steps == kPipelineSteps ? "" : fmt::format(", {} steps", steps));
  }

  PipelineTrial on_one_device() const {
    auto out = *this;
    out.stages = 1;
    out.schedule = "1f1b";
    out.placement = {};
    return out;
  }

  nn::BlockList blocks() const {
    const models::Small size{.heads = 4, .layers = layers};
    const auto made = [&](auto config) {
      config.tie_word_embeddings = tied;
      return config.make_blocks();
    };
    if (model == "gpt2") return made(models::small_gpt2(size));
    if (model == "bert") return made(models::small_bert(size));
    if (model == "t5") return made(models::small_t5({.layers = layers}));
    if (model == "own") return own_blocks(layers);
    if (model == "session") return models::make_session_model(models::small_session(size));
    return made(models::small_llama(size));
  }

  /// Rows of a rank's micro-batch, each of another length.
  MicroBatch batch(int64_t step, int64_t m, int64_t rank = 0, int64_t rows = 3) const {
    const int64_t length = 12 + 4 * (m % 2), first = (m * 2 + rank) * 3;
    auto ids = at::arange(rows * length, at::kLong).view({rows, length});
    ids = ids.mul(7).add(11 * m + 5 * step + 3 * rank).remainder(50);
    MicroBatch out{{{"input_ids", ids}}, at::arange(first, first + rows, at::kLong)};
    if (model == "t5") out.inputs["labels"] = ids.flip(1);
    if (model == "session") {
      const auto lengths = at::arange(length - rows + 1, length + 1, at::kLong);
      const auto padding = at::arange(length).unsqueeze(0).ge(lengths.unsqueeze(1));
      out.inputs = {{"items", ids.remainder(49).add(1).masked_fill(padding, 0)},
                    {"lengths", lengths}};
    }
    return out;
  }

  std::vector<MicroBatch> batches(int64_t step, int64_t rank) const {
    std::vector<MicroBatch> out;
    for (int64_t m = 0; m < micro_batches; ++m) {
      // The last micro-batch of the last step has no rows, unless it is the only one; that of the
      // step before has one.
      const int64_t left = steps - step;
      const bool is_short = left <= 2 && m + 1 == micro_batches && micro_batches > 1;
      out.push_back(batch(step, m, rank, is_short ? left - 1 : 3));
    }
    return out;
  }
};

/// Losses and norms of the steps, and the weights after them by name.
struct PipelineOutcome {
  std::vector<double> numbers;
  std::map<std::string, at::Tensor> weights;
  bool ties_cross_stages = false;

  void add(const StepResult& result) {
    numbers.insert(numbers.end(), {result.loss_sum, result.count, result.grad_norm});
  }
  void add(const State& state) {
    for (const auto& tensor : state) {
      auto& whole = weights[tensor.name];
      if (!whole.defined()) whole = at::full({parallel::num_elements(tensor.shape)}, NAN);
      for (const auto& piece : tensor.pieces) {
        auto place = whole.narrow(0, piece.begin, piece.values.numel());
        // What several stages hold is the same on all.
        const bool known = place.isfinite().all().item<bool>();
        EXPECT_TRUE(!known || at::equal(place, piece.values));
        place.copy_(piece.values);
      }
    }
  }
};

inline StepInput input_of_step(int64_t step) {
  return {.seed = 7, .step = step, .learning_rate = 1e-2, .updates = step};
}

/// `work` on each rank of a job. Two groups serve the two directions and one what describes
/// messages, as over NCCL.
inline void run_pipeline_ranks(int stages, int data, std::chrono::milliseconds timeout,
                               const std::function<void(const comm::Groups&, int rank)>& work) {
  comm::ThreadConnector connector(timeout);
  comm::run_threads(stages * data, [&](int rank) {
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    };
    comm::Groups groups({{.pipeline = stages}, rank, stages * data}, connect);
    const auto pipeline = groups.mesh.ranks_along(parallel::Axis::Pipeline);
    if (pipeline.size() > 1) {
      groups.pipeline_back = connect(pipeline, fmt::format("back-{}", pipeline[0]));
      groups.pipeline_heads = connect(pipeline, fmt::format("heads-{}", pipeline[0]));
    }
    work(groups, rank);
  });
}

/// Whether several stages hold a unit.
inline bool ties_cross_stages(const parallel::Layout& layout) {
  for (const auto& units : layout.table().units_of_block) {
    for (const int64_t unit : units) {
      if (layout.stages_of(unit).size() > 1) return true;
    }
  }
  return false;
}

inline PipelineOutcome train_pipeline(const PipelineTrial& trial) {
  PipelineOutcome out;
  std::mutex mutex;
  run_pipeline_ranks(trial.stages, trial.data, std::chrono::seconds(60),
                     [&](const comm::Groups& groups, int rank) {
                       Replica replica(trial.blocks(), groups, trial.options());
                       replica.start();
                       const int data = groups.mesh.place(parallel::kRows);
                       for (int64_t step = 0; step < trial.steps; ++step) {
                         const auto result =
                             replica.step(trial.batches(step, data), input_of_step(step),
                                          {.max_grad_norm = trial.max_norm});
                         if (rank == 0) out.add(result);
                       }
                       const auto weights = replica.weights();
                       const std::lock_guard lock(mutex);
                       out.add(weights);
                       if (rank == 0 && trial.stages > 1) {
                         out.ties_cross_stages = ties_cross_stages(replica.flat().layout());
                       }
                     });
  return out;
}

inline void expect_same_bits(const PipelineOutcome& stages, const PipelineOutcome& whole) {
  EXPECT_EQ(stages.numbers, whole.numbers);
  ASSERT_EQ(stages.weights.size(), whole.weights.size());
  for (const auto& [name, weight] : whole.weights) {
    EXPECT_TRUE(at::equal(stages.weights.at(name), weight)) << name;
  }
}

/// The two ends add up their parts of a tied table's gradient each for itself, and then both: other
/// sums than one device's, which adds them micro-batch by micro-batch.
inline void expect_near(const PipelineOutcome& stages, const PipelineOutcome& whole,
                        double tolerance) {
  ASSERT_EQ(stages.numbers.size(), whole.numbers.size());
  for (size_t i = 0; i < whole.numbers.size(); ++i) {
    EXPECT_NEAR(stages.numbers[i], whole.numbers[i], tolerance * whole.numbers[i]);
  }
  ASSERT_EQ(stages.weights.size(), whole.weights.size());
  for (const auto& [name, weight] : whole.weights) {
    const auto apart = (stages.weights.at(name) - weight).norm().item<double>();
    // A bias that began as zero may have no more than rounding made of it.
    const double least = 1e-3 * std::sqrt(static_cast<double>(weight.numel()));
    EXPECT_LT(apart, tolerance * std::max(least, weight.norm().item<double>())) << name;
  }
}

/// A pipeline has one device's bits unless a tie crosses stages.
inline void expect_equal(const PipelineTrial& trial, const PipelineOutcome& stages,
                         const PipelineOutcome& whole) {
  if (!stages.ties_cross_stages) return expect_same_bits(stages, whole);
  expect_near(stages, whole, trial.dtype == at::kFloat ? 1e-5 : 2e-2);
}

}  // namespace convoy::parallel
