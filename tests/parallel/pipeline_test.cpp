#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/mesh.h"
#include "convoy/parallel/replica.h"
#include "convoy/schedule/check.h"
#include "tests/comm/ranks_testing.h"
#include "tests/models/testing.h"
#include "tests/schedule/two_stages.h"

// Stages of a pipeline, each a thread, run programs written by hand.
namespace convoy::parallel {
namespace {

using comm::Axis;
using schedule::TwoStages;
using testing::HasSubstr;

constexpr int64_t kSteps = 4;

/// Four blocks.
nn::BlockList llama() {
  auto config = models::small_llama({.heads = 4});
  config.tie_word_embeddings = false;
  return config.make_blocks();
}

/// Rows of a rank's micro-batch; of another length each.
MicroBatch batch(int64_t step, int64_t m, int64_t rank = 0, int64_t rows = 3) {
  const int64_t length = 12 + 4 * m, first = (m * 2 + rank) * 3;
  auto ids = at::arange(rows * length, at::kLong).view({rows, length});
  ids = ids.mul(7).add(11 * m + 5 * step + 3 * rank).remainder(50);
  return {{{"input_ids", ids}}, at::arange(first, first + rows, at::kLong)};
}

struct Trial {
  int stage = 0;  // of ZeRO
  int data = 1;   // ranks that share samples
  at::ScalarType dtype = at::kFloat;
  bool recomputes = false;
  bool alternates = false;
  bool t5 = false;  // several tensors go from stage to stage, some with gradients

  schedule::StepOptions step() const {
    schedule::StepOptions options{.num_micro_batches = 2};
    if (recomputes) options.recomputed = {0, 1, 2};
    return options;
  }
};

nn::BlockList blocks_of(const Trial& trial) {
  if (!trial.t5) return llama();
  auto config = models::small_t5({});
  config.tie_word_embeddings = false;
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
        whole.narrow(0, piece.begin, piece.values.numel()).copy_(piece.values);
      }
    }
  }
};

StepInput input(int64_t step) {
  return {.seed = 7, .step = step, .learning_rate = 1e-2, .updates = step};
}

std::vector<MicroBatch> batches(const Trial& trial, int64_t step, int64_t rank) {
  // The last micro-batch of the last step has no rows.
  std::vector<MicroBatch> out{batch(step, 0, rank),
                              batch(step, 1, rank, step + 1 == kSteps ? 0 : 3)};
  for (auto& each : out) {
    if (trial.t5) each.inputs["labels"] = each.inputs.at("input_ids").flip(1);
  }
  return out;
}

/// A whole model on each of the data-parallel ranks.
Outcome without_pipeline(const Trial& trial) {
  Outcome out;
  std::mutex mutex;
  auto groups = comm::make_thread_groups(trial.data, std::chrono::seconds(20));
  comm::run_threads(trial.data, [&](int rank) {
    ReplicaOptions options;
    options.num_micro_batches = 2;
    options.compute_dtype = trial.dtype;
    options.zero = trial.stage;
    options.bucket_bytes = 0;
    Replica replica(blocks_of(trial), groups[static_cast<size_t>(rank)], options);
    replica.start();
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto result = replica.step(batches(trial, step, rank), input(step), {});
      if (rank == 0) out.add(result);
    }
    const std::lock_guard lock(mutex);
    out.add(replica.weights());
  });
  return out;
}

/// One stage of the model on this rank.
class Stage {
 public:
  Stage(const comm::Mesh& mesh, const Trial& trial)
      : mesh_(mesh),
        trial_(trial),
        groups_(groups_of(mesh)),
        step_(trial.step()),
        blocks_(blocks_of(trial)),
        arena_(blocks_, options_of(mesh, trial, static_cast<int64_t>(blocks_.size())), nullptr) {
    arena_.bind();
    const auto& layout = arena_.layout();
    for (const auto& piece : layout.pieces(arena_.rank())) {
      const auto& unit = arena_.units()[static_cast<size_t>(piece.unit)];
      const auto& spec = unit.slots[static_cast<size_t>(piece.param)].param->spec();
      const schedule::Extent place{piece.place, piece.place + piece.length};
      nn::initialize(spec, 42, arena_.masters(layout.bucket_of(piece.unit), place), piece.begin);
    }
    if (groups_.shard.size() > 1 && !layout.in_slices(schedule::Kind::Masters)) {
      for (int64_t b = 0; b < layout.num_buckets(); ++b) {
        const auto& all = layout.buckets()[static_cast<size_t>(b)].all;
        groups_.shard.all_gather(arena_.masters(b, all), arena_.masters(b, arena_.part(b)), "fill");
      }
    }
    arena_.publish_weights();
    TwoStages programs(layout, step_);
    program_ =
        trial.alternates ? programs.one_forward_one_backward() : programs.all_forwards_first();
    executor_ = std::make_unique<Executor>(blocks_, arena_, groups_, trial.dtype, step_);
  }

  StepResult step(int64_t number) {
    return executor_->run(program_, batches(trial_, number, mesh_.coordinate(Axis::Data)),
                          input(number), {});
  }
  State weights() {
    executor_->settle();
    return weights_of(arena_, {}, groups_);
  }
  const schedule::Program& program() const { return program_; }
  Arena& arena() { return arena_; }

 private:
  static DataGroups groups_of(const comm::Mesh& mesh) {
    DataGroups groups(mesh.sharing());
    groups.pipeline = mesh.group(Axis::Pipeline);
    groups.world = mesh.world();
    return groups;
  }
  static ArenaOptions options_of(const comm::Mesh& mesh, const Trial& trial, int64_t num_blocks) {
    ArenaOptions out{at::kCPU, trial.dtype, true, mesh.sharing().rank()};
    out.layout.stage = trial.stage;
    out.layout.num_parts = mesh.sharing().size();
    out.layout.bucket_bytes = 0;
    const bool first = mesh.coordinate(Axis::Pipeline) == 0;
    for (int64_t block = first ? 0 : 2; block < (first ? 2 : num_blocks); ++block) {
      out.layout.blocks.push_back(block);
    }
    return out;
  }

  const comm::Mesh& mesh_;
  Trial trial_;
  DataGroups groups_;
  schedule::StepOptions step_;
  nn::BlockList blocks_;
  Arena arena_;
  schedule::Program program_;
  std::unique_ptr<Executor> executor_;
};

/// `work` on each rank of two stages, with the given number of data-parallel ranks.
void run_stages(int data, std::chrono::milliseconds timeout,
                const std::function<void(const comm::Mesh&, int rank)>& work) {
  comm::ThreadConnector connector(timeout);
  comm::run_threads(2 * data, [&](int rank) {
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector.connect(rank, ranks, name);
    };
    work(comm::Mesh({.pipeline = 2}, rank, 2 * data, connect), rank);
  });
}

Outcome with_pipeline(const Trial& trial) {
  Outcome out;
  std::mutex mutex;
  run_stages(trial.data, std::chrono::seconds(20), [&](const comm::Mesh& mesh, int rank) {
    Stage stage(mesh, trial);
    for (int64_t step = 0; step < kSteps; ++step) {
      const auto result = stage.step(step);
      if (rank == 0) out.add(result);
    }
    const std::lock_guard lock(mutex);
    out.add(stage.weights());
  });
  return out;
}

TEST(Pipeline, TwoStagesGiveTheBitsOfOneDevice) {
  for (const auto& trial :
       {Trial{}, Trial{.alternates = true}, Trial{.dtype = at::kBFloat16, .alternates = true},
        Trial{.recomputes = true}, Trial{.recomputes = true, .alternates = true}, Trial{.data = 2},
        Trial{.stage = 1, .data = 2, .alternates = true}, Trial{.stage = 2, .data = 2},
        Trial{.stage = 3, .data = 2, .alternates = true},
        Trial{.stage = 3, .data = 2, .dtype = at::kBFloat16}, Trial{.t5 = true},
        Trial{.stage = 3, .data = 2, .recomputes = true, .alternates = true, .t5 = true}}) {
    const auto whole = without_pipeline(trial), stages = with_pipeline(trial);
    EXPECT_EQ(stages.numbers, whole.numbers);
    ASSERT_EQ(stages.weights.size(), whole.weights.size());
    for (const auto& [name, weight] : whole.weights) {
      EXPECT_TRUE(at::equal(stages.weights.at(name), weight))
          << name << ", zero " << trial.stage << ", " << trial.data << " data-parallel ranks";
    }
  }
}

TEST(Pipeline, EachRankHoldsItsOwnBlocksOnly) {
  std::atomic<int64_t> held = 0;
  run_stages(1, std::chrono::seconds(20), [&](const comm::Mesh& mesh, int rank) {
    Stage stage(mesh, {});
    held += stage.arena().num_trainable_parameters();
    const auto& there = llama()[rank == 0 ? 3 : 0]->params().front()->spec().name;
    EXPECT_FALSE(stage.arena().value_of(there).defined());
  });
  Arena whole(llama(), {}, nullptr);
  EXPECT_EQ(held, whole.num_trainable_parameters());
}

TEST(Pipeline, TheProgramsPassTheCheck) {
  std::mutex mutex;
  std::map<int, std::pair<schedule::Program, schedule::Layout>> all;
  run_stages(2, std::chrono::seconds(20), [&](const comm::Mesh& mesh, int rank) {
    Stage stage(mesh, {.stage = 3, .data = 2, .alternates = true});
    const std::lock_guard lock(mutex);
    all[rank] = {stage.program(), stage.arena().layout()};
  });
  std::vector<schedule::RankProgram> ranks;
  for (const auto& [rank, own] : all) {
    ranks.push_back(
        {own.first, own.second, {rank % 2, rank % 2 + 2}, {rank / 2 * 2, rank / 2 * 2 + 1}});
  }
  const auto alive = schedule::check(ranks, {.num_micro_batches = 2});
  EXPECT_EQ(alive[0].blocks, 4);
  EXPECT_EQ(alive[2].blocks, 2);
}

TEST(Pipeline, AStageThatDoesNotComeIsNamed) {
  std::string told;
  run_stages(1, std::chrono::seconds(1), [&](const comm::Mesh& mesh, int rank) {
    Stage stage(mesh, {});
    mesh.world().barrier("made");
    if (rank == 1) return std::this_thread::sleep_for(std::chrono::seconds(3));
    try {
      stage.step(0);
    } catch (const CommunicationError& error) {
      told = error.what();
    }
  });
  EXPECT_THAT(told, HasSubstr("block 1, micro-batch "));
  EXPECT_THAT(told, HasSubstr("rank 1"));
}

TEST(Pipeline, AFaultMayHappenWhereAStageSends) {
  ::setenv("CONVOY_FAULT", "exception@0:send:1", 1);
  arm_fault(/*rank=*/0, /*restart_count=*/0);
  tell_step(1);
  std::array<std::string, 2> told;
  run_stages(1, std::chrono::seconds(1), [&](const comm::Mesh& mesh, int rank) {
    Stage stage(mesh, {});
    mesh.world().barrier("made");
    try {
      stage.step(0);
    } catch (const std::exception& error) {
      told[static_cast<size_t>(rank)] = error.what();
    }
  });
  ::unsetenv("CONVOY_FAULT");
  arm_fault(0, 0);
  EXPECT_EQ(told[0], "[fault] injected exception in send");
  EXPECT_THAT(told[1], HasSubstr("block 1, micro-batch "));
}

}  // namespace
}  // namespace convoy::parallel
