#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <array>
#include <cstdlib>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/mesh.h"
#include "convoy/nn/module_block.h"
#include "convoy/parallel/replica.h"
#include "convoy/schedule/check.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"

// Stages of a pipeline, each a thread.
namespace convoy::parallel {
namespace {

using comm::Axis;
using testing::HasSubstr;

constexpr int64_t kSteps = 3;

/// Four blocks.
nn::BlockList llama(bool tied = false) {
  auto config = models::small_llama({.heads = 4});
  config.tie_word_embeddings = tied;
  return config.make_blocks();
}

/// Rows of a rank's micro-batch; of another length each.
MicroBatch batch(int64_t step, int64_t m, int64_t rank = 0, int64_t rows = 3) {
  const int64_t length = 12 + 4 * (m % 2), first = (m * 2 + rank) * 3;
  auto ids = at::arange(rows * length, at::kLong).view({rows, length});
  ids = ids.mul(7).add(11 * m + 5 * step + 3 * rank).remainder(50);
  return {{{"input_ids", ids}}, at::arange(first, first + rows, at::kLong)};
}

struct Trial {
  std::string schedule = "1f1b";
  int stages = 2;
  int data = 1;  // ranks that share samples
  int zero = 0;
  int64_t micro_batches = 2;
  at::ScalarType dtype = at::kFloat;
  bool recomputes = false;
  bool t5 = false;  // several tensors go from stage to stage, some with gradients
  bool tied = false;

  ReplicaOptions options() const {
    ReplicaOptions out;
    out.num_micro_batches = micro_batches;
    out.compute_dtype = dtype;
    out.zero = zero;
    out.bucket_bytes = micro_batches % 2 == 0 ? 25 << 20 : 0;
    out.recompute = recomputes;
    out.pipeline.schedule = schedule::pipeline_schedule(schedule);
    return out;
  }
  std::string name() const {
    return fmt::format("{}, {} stages, {} data, zero {}, {} micro-batches{}{}{}", schedule, stages,
                       data, zero, micro_batches, recomputes ? ", recomputes" : "",
                       t5 ? ", t5" : "", tied ? ", tied" : "");
  }
};

nn::BlockList blocks_of(const Trial& trial) {
  if (!trial.t5) return llama(trial.tied);
  auto config = models::small_t5({});
  config.tie_word_embeddings = trial.tied;
  return config.make_blocks();
}

/// Losses and norms of the steps, and the weights after them by name.
struct Outcome {
  std::vector<double> numbers;
  std::map<std::string, at::Tensor> weights;

  void add(const StepResult& result) {
    numbers.insert(numbers.end(), {result.loss_sum, result.count, result.grad_norm});
  }
  void add(const State& state) {
    for (const auto& tensor : state) {
      auto& whole = weights[tensor.name];
      if (!whole.defined()) whole = at::full({schedule::num_elements(tensor.shape)}, NAN);
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

StepInput input(int64_t step) {
  return {.seed = 7, .step = step, .learning_rate = 1e-2, .updates = step};
}

std::vector<MicroBatch> batches(const Trial& trial, int64_t step, int64_t rank) {
  std::vector<MicroBatch> out;
  for (int64_t m = 0; m < trial.micro_batches; ++m) {
    // The last micro-batch of the last step has no rows.
    const bool none = step + 1 == kSteps && m + 1 == trial.micro_batches;
    out.push_back(batch(step, m, rank, none ? 0 : 3));
    if (trial.t5) out.back().inputs["labels"] = out.back().inputs.at("input_ids").flip(1);
  }
  return out;
}

/// Two groups for the two directions and one for what describes messages, as over NCCL.
DataGroups groups_of(const comm::Mesh& mesh, const comm::Group& back, const comm::Group& heads) {
  DataGroups groups(mesh.sharing());
  groups.pipeline = mesh.group(Axis::Pipeline);
  groups.pipeline_back = back;
  groups.pipeline_heads = heads;
  groups.world = mesh.world();
  return groups;
}

/// `work` on each rank of a job.
void run_ranks(int stages, int data, std::chrono::milliseconds timeout,
               const std::function<void(const comm::Mesh&, const DataGroups&, int rank)>& work) {
  comm::ThreadConnector connector(timeout);
  comm::run_threads(stages * data, [&](int rank) {
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    };
    const comm::Mesh mesh({.pipeline = stages}, rank, stages * data, connect);
    const auto pipeline = mesh.ranks_along(Axis::Pipeline);
    const auto more = [&](const char* name) {
      return stages > 1 ? connect(pipeline, fmt::format("{}-{}", name, pipeline[0]))
                        : comm::Group();
    };
    const auto back = more("back"), heads = more("heads");
    work(mesh, groups_of(mesh, back, heads), rank);
  });
}

Outcome train(const Trial& trial) {
  Outcome out;
  std::mutex mutex;
  run_ranks(trial.stages, trial.data, std::chrono::seconds(20),
            [&](const comm::Mesh& mesh, const DataGroups& groups, int rank) {
              Replica replica(blocks_of(trial), groups, trial.options());
              replica.start();
              const int data = mesh.coordinate(Axis::Data);
              for (int64_t step = 0; step < kSteps; ++step) {
                const auto result = replica.step(batches(trial, step, data), input(step), {});
                if (rank == 0) out.add(result);
              }
              const auto weights = replica.weights();
              const std::lock_guard lock(mutex);
              out.add(weights);
            });
  return out;
}

Trial without_pipeline(Trial trial) {
  trial.stages = 1;
  trial.schedule = "1f1b";
  return trial;
}

TEST(Pipeline, StagesGiveTheBitsOfOneDevice) {
  for (const auto& trial :
       {Trial{.schedule = "gpipe"}, Trial{}, Trial{.dtype = at::kBFloat16},
        Trial{.schedule = "gpipe", .recomputes = true}, Trial{.recomputes = true},
        Trial{.schedule = "gpipe", .data = 2}, Trial{.data = 2, .zero = 1},
        Trial{.schedule = "gpipe", .data = 2, .zero = 2}, Trial{.data = 2, .zero = 3},
        Trial{.schedule = "gpipe", .data = 2, .zero = 3, .dtype = at::kBFloat16}, Trial{.t5 = true},
        Trial{.data = 2, .zero = 3, .recomputes = true, .t5 = true},
        Trial{.stages = 3, .micro_batches = 5}, Trial{.stages = 4, .micro_batches = 3},
        Trial{.schedule = "gpipe", .stages = 4, .micro_batches = 4},
        Trial{.schedule = "interleaved", .micro_batches = 4},
        Trial{.schedule = "interleaved", .micro_batches = 6, .recomputes = true},
        Trial{.schedule = "interleaved", .data = 2, .zero = 1, .micro_batches = 2, .t5 = true},
        Trial{.schedule = "interleaved", .data = 2, .zero = 3, .micro_batches = 2}}) {
    SCOPED_TRACE(trial.name());
    const auto whole = train(without_pipeline(trial)), stages = train(trial);
    EXPECT_EQ(stages.numbers, whole.numbers);
    ASSERT_EQ(stages.weights.size(), whole.weights.size());
    for (const auto& [name, weight] : whole.weights) {
      EXPECT_TRUE(at::equal(stages.weights.at(name), weight)) << name;
    }
  }
}

// The two ends add up their parts of a tied table's gradient each for itself, and then both: other
// sums than one device's, which adds them micro-batch by micro-batch.
TEST(Pipeline, TiedTablesAreKeptInStep) {
  for (const auto& trial :
       {Trial{.tied = true}, Trial{.stages = 3, .micro_batches = 4, .tied = true},
        Trial{.data = 2, .tied = true}, Trial{.data = 2, .zero = 1, .tied = true},
        Trial{.data = 2, .zero = 3, .tied = true}, Trial{.dtype = at::kBFloat16, .tied = true},
        Trial{.stages = 3, .t5 = true, .tied = true},
        Trial{.schedule = "interleaved", .micro_batches = 4, .tied = true}}) {
    SCOPED_TRACE(trial.name());
    const auto whole = train(without_pipeline(trial)), stages = train(trial);
    const double tolerance = trial.dtype == at::kFloat ? 1e-5 : 2e-2;
    for (size_t i = 0; i < whole.numbers.size(); ++i) {
      EXPECT_NEAR(stages.numbers[i], whole.numbers[i], tolerance * whole.numbers[i]);
    }
    ASSERT_EQ(stages.weights.size(), whole.weights.size());
    for (const auto& [name, weight] : whole.weights) {
      const auto apart = (stages.weights.at(name) - weight).norm() / weight.norm();
      EXPECT_LT(apart.item<double>(), tolerance) << name;
    }
  }
}

/// Counts how often it ran in training, as running statistics do.
class Counting : public nn::Block {
 public:
  Counting(const std::string& name, bool last) : Block(name), last_(last) {
    declare_vector(name + ".weight", 4, nn::Init::ones());
  }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    if (context.mode == nn::Mode::Train) count_.add_(1);
    const auto& x = in.at("x");
    if (!last_) return {{"x", x * 2}};
    return {{"loss", x.sum()}, {"count", at::ones({}, at::kLong)}};
  }
  std::vector<nn::NamedTensor> buffers() override { return {{name() + ".count", count_}}; }

 private:
  bool last_;
  at::Tensor count_ = at::zeros({1});
};

TEST(Pipeline, BuffersAreThoseOfTheStageThatRunsTheirBlock) {
  std::mutex mutex;
  run_ranks(2, 2, std::chrono::seconds(20),
            [&](const comm::Mesh&, const DataGroups& groups, int rank) {
              nn::BlockList blocks;
              for (const char* name : {"a", "b", "c", "d"}) {
                blocks.push_back(std::make_shared<Counting>(name, *name == 'd'));
              }
              ReplicaOptions options;
              options.num_micro_batches = 2;
              options.pipeline.splits = {2};
              Replica replica(blocks, groups, options);
              replica.start();
              for (int64_t step = 0; step < 3; ++step) {
                const MicroBatch batch{{{"x", at::ones({2, 3})}}, at::arange(2, at::kLong)};
                replica.step({batch, batch}, input(step), {});
              }
              const auto weights = replica.weights();
              const std::lock_guard lock(mutex);
              int buffers = 0;
              for (const auto& tensor : weights) {
                if (!tensor.is_buffer) continue;
                ++buffers;
                EXPECT_EQ(tensor.pieces.at(0).owned, rank == 0);
                EXPECT_EQ(tensor.pieces.at(0).values.item<float>(), 6) << tensor.name;
              }
              EXPECT_EQ(buffers, 4);
            });
}

TEST(Pipeline, EachRankHoldsItsOwnBlocksOnly) {
  std::atomic<int64_t> held = 0;
  run_ranks(2, 1, std::chrono::seconds(20),
            [&](const comm::Mesh& mesh, const DataGroups& groups, int rank) {
              Replica replica(llama(), groups, {});
              replica.start();
              for (const auto& slot : replica.arena().all_slots()) held += slot.length;
              const auto& there = llama()[rank == 0 ? 3 : 0]->params().front()->spec().name;
              EXPECT_FALSE(replica.arena().value_of(there).defined());
              EXPECT_EQ(replica.arena().num_parameters(),
                        Arena(llama(), {}, nullptr).num_parameters());
            });
  EXPECT_EQ(held, Arena(llama(), {}, nullptr).num_parameters());
}

TEST(Pipeline, AnEvaluationGoesThroughAllStages) {
  const Trial trial{.schedule = "interleaved"};
  std::map<int, nn::Bundle> outs;
  std::mutex mutex;
  for (const int stages : {1, 2}) {
    run_ranks(stages, 1, std::chrono::seconds(20),
              [&](const comm::Mesh& mesh, const DataGroups& groups, int rank) {
                Replica replica(blocks_of(trial), groups, trial.options());
                replica.start();
                auto out = replica.forward(batch(0, 0), nn::Mode::Evaluate);
                EXPECT_EQ(out.empty(), rank + 1 < stages);
                const std::lock_guard lock(mutex);
                if (!out.empty()) outs[stages] = std::move(out);
              });
  }
  EXPECT_TRUE(at::equal(outs.at(1).at("loss"), outs.at(2).at("loss")));
}

TEST(Pipeline, BlocksThatDoNotGoIntoStagesAreTold) {
  const auto refusal = [](int stages, PipelineOptions options) -> std::string {
    try {
      cut_into_stages(llama(), stages, options);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(5, {}), HasSubstr("a pipeline of 5 stages needs as many blocks; got a model "
                                        "of 4 ("));
  EXPECT_THAT(refusal(3, {.schedule = schedule::PipelineSchedule::Interleaved}),
              HasSubstr("3 stages with 2 rows of blocks each"));
  EXPECT_THAT(refusal(2, {.splits = {1, 2}}), HasSubstr("makes 3 rows of blocks; expected 1"));
  EXPECT_THAT(refusal(3, {.splits = {2, 2}}), HasSubstr("must ascend between 1 and 3"));
  EXPECT_THAT(refusal(2, {.splits = {4}}), HasSubstr("must ascend between 1 and 3"));
  EXPECT_EQ(cut_into_stages(llama(), 2, {.splits = {3}}), (schedule::Stages{{0, 1, 2}, {3}}));
}

/// Two stages that have `each` make the first step, with a second's patience.
void run_first_step(const std::function<void(int rank, const std::function<void()>& step)>& each) {
  run_ranks(2, 1, std::chrono::seconds(1),
            [&](const comm::Mesh& mesh, const DataGroups& groups, int rank) {
              const Trial trial;
              Replica replica(blocks_of(trial), groups, trial.options());
              replica.start();
              mesh.world().barrier("made");
              each(rank, [&] { replica.step(batches(trial, 0, 0), input(0), {}); });
            });
}

TEST(Pipeline, AStageThatDoesNotComeIsNamed) {
  std::string told;
  run_first_step([&](int rank, const auto& step) {
    if (rank == 1) return std::this_thread::sleep_for(std::chrono::seconds(3));
    try {
      step();
    } catch (const CommunicationError& error) {
      told = error.what();
    }
  });
  EXPECT_THAT(told, HasSubstr("micro-batch "));
  EXPECT_THAT(told, HasSubstr("rank 1"));
}

TEST(Pipeline, AFaultMayHappenWhereAStageSends) {
  ::setenv("CONVOY_FAULT", "exception@0:send:1", 1);
  arm_fault(/*rank=*/0, /*num_ranks=*/1, /*restart_count=*/0);
  tell_step(1);
  std::array<std::string, 2> told;
  run_first_step([&](int rank, const auto& step) {
    try {
      step();
    } catch (const std::exception& error) {
      told[static_cast<size_t>(rank)] = error.what();
    }
  });
  ::unsetenv("CONVOY_FAULT");
  arm_fault(0, 1, 0);
  EXPECT_EQ(told[0], "[fault] injected exception in send");
  EXPECT_THAT(told[1], HasSubstr("micro-batch "));
}

TEST(Pipeline, ANumberThatIsNotFiniteIsToldOfTheStageThatMadeIt) {
  for (const std::string schedule : {"1f1b", "gpipe", "interleaved"}) {
    for (const int spoilt : {0, 1, 2, 3}) {
      const Trial trial{.schedule = schedule, .data = 2};
      std::atomic<int> told{0};
      run_ranks(trial.stages, trial.data, std::chrono::seconds(20),
                [&](const comm::Mesh& mesh, const DataGroups& groups, int rank) {
                  Replica replica(blocks_of(trial), groups, trial.options());
                  replica.start();
                  if (rank == spoilt) replica.arena().fill(NAN);
                  try {
                    replica.step(batches(trial, 0, mesh.coordinate(Axis::Data)), input(0), {});
                  } catch (const NumericError& error) {
                    const auto who = fmt::format("not finite on rank {};", spoilt);
                    EXPECT_THAT(error.what(), HasSubstr(who)) << schedule;
                    ++told;
                  }
                });
      EXPECT_EQ(told, 4);
    }
  }
}

TEST(Pipeline, AUsersModulesOfOtherStagesTakeNoMemory) {
  constexpr int kStages = 3;
  const auto forward = [](const nn::Bundle& in, const nn::Context&) { return in; };
  run_ranks(kStages, 1, std::chrono::seconds(20),
            [&](const comm::Mesh&, const DataGroups& groups, int rank) {
              nn::BlockList blocks;
              std::vector<torch::nn::Linear> modules;
              for (int b = 0; b < kStages; ++b) {
                modules.emplace_back(8, 8);
                const torch::NoGradGuard no_grad;
                modules.back()->weight.fill_(10 * rank + b);
                const auto name = "block" + std::to_string(b);
                auto module = std::make_shared<torch::nn::Module>();
                module->register_module(name, modules.back());
                blocks.push_back(std::make_shared<nn::ModuleBlock>(module, forward, name));
              }
              ReplicaOptions options;
              options.num_micro_batches = kStages;
              Replica replica(blocks, groups, options);
              replica.start();
              for (int b = 0; b < kStages; ++b) {
                const auto& weight = modules[static_cast<size_t>(b)]->weight;
                EXPECT_EQ(weight.numel(), b == rank ? 64 : 0) << "rank " << rank;
                if (b == rank) EXPECT_TRUE(weight.eq(b).all().item<bool>()) << "rank 0's";
              }
            });
}

}  // namespace
}  // namespace convoy::parallel
