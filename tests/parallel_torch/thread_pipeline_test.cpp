#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/nn/module_block.h"
#include "convoy/parallel/strategy/strategy.h"
#include "tests/parallel_torch/pipeline_testing.h"

// Stages that a ThreadStrategy runs, as `--pipeline_parallel_size` without a launcher.
namespace convoy::parallel {
namespace {

using parallel::Placement;
using testing::HasSubstr;
using Trial = PipelineTrial;

std::unique_ptr<Strategy> strategy_of(
    const Trial& trial, std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
  const std::vector<at::Device> devices(static_cast<size_t>(trial.stages * trial.data), at::kCPU);
  return make_thread_strategy([trial] { return trial.blocks(); }, devices, trial.options(), 1,
                              timeout, trial.stages);
}

/// A step's micro-batches of each data rank.
std::vector<std::vector<MicroBatch>> rows_of(const Trial& trial, int64_t step) {
  std::vector<std::vector<MicroBatch>> out;
  for (int rank = 0; rank < trial.data; ++rank) out.push_back(trial.batches(step, rank));
  return out;
}

PipelineOutcome train_in_threads(const Trial& trial) {
  PipelineOutcome out;
  const auto strategy = strategy_of(trial);
  EXPECT_EQ(strategy->num_ranks(), trial.data);
  EXPECT_EQ(strategy->num_local_ranks(), trial.data);
  for (int64_t step = 0; step < kPipelineSteps; ++step) {
    out.add(strategy->step(rows_of(trial, step), input_of_step(step),
                           {.max_grad_norm = trial.max_norm}));
  }
  out.add(strategy->weights());
  return out;
}

TEST(ThreadPipeline, HasTheBitsOfRanksOfTheirOwn) {
  for (const auto& trial :
       {Trial{.schedule = "naive", .micro_batches = 3}, Trial{.schedule = "gpipe", .tied = true},
        Trial{.data = 2, .model = "gpt2", .tied = true}, Trial{.data = 2, .zero = 1},
        Trial{.schedule = "interleaved", .data = 2, .zero = 3, .tied = true},
        Trial{.schedule = "zero_bubble", .data = 2, .micro_batches = 5, .model = "t5"},
        Trial{.schedule = "auto", .micro_batches = 4, .dtype = at::kBFloat16, .model = "gpt2"},
        Trial{.schedule = "zero_bubble", .stages = 3, .data = 2, .model = "session", .layers = 4},
        Trial{.schedule = "interleaved",
              .data = 2,
              .dtype = at::kBFloat16,
              .recomputes = true,
              .model = "bert",
              .tied = true,
              .placement = Placement::V}}) {
    SCOPED_TRACE(trial.name());
    expect_same_bits(train_in_threads(trial), train_pipeline(trial));
  }
}

// Whoever holds the last block has them.
TEST(ThreadPipeline, ReturnsWhatTheLastBlocksMakeOfEachDataRanksRows) {
  for (const auto placement : {Placement::Loop, Placement::V}) {
    const Trial trial{.schedule = "interleaved", .data = 3, .placement = placement, .layers = 4};
    const std::vector<MicroBatch> batches{trial.batch(0, 0, 0), trial.batch(0, 0, 1),
                                          trial.batch(0, 0, 2, 0)};
    const auto outputs = strategy_of(trial)->forward(batches, nn::Mode::Evaluate);
    ASSERT_EQ(outputs.size(), 3U);
    auto alone = trial.on_one_device();
    alone.data = 1;
    const auto one = strategy_of(alone);
    for (size_t rank = 0; rank < 2; ++rank) {
      const auto expected = one->forward({batches[rank]}, nn::Mode::Evaluate);
      EXPECT_TRUE(at::equal(outputs[rank].at("loss"), expected[0].at("loss"))) << rank;
    }
    EXPECT_TRUE(outputs[2].empty()) << "had no rows";
  }
}

TEST(ThreadPipeline, EachStageHoldsItsBlocksOnlyAndReplicasShareThem) {
  const Trial trial{.data = 2, .layers = 6};
  const auto strategy = strategy_of(trial);
  const auto replicas = strategy->replicas();
  ASSERT_EQ(replicas.size(), 4U);
  int64_t elements = 0;
  for (const size_t rank : {0, 2}) {
    EXPECT_EQ(replicas[rank]->flat().masters().data_ptr(),
              replicas[rank + 1]->flat().masters().data_ptr());
    elements += replicas[rank]->flat().masters().numel();
  }
  EXPECT_NE(replicas[0]->flat().masters().data_ptr(), replicas[2]->flat().masters().data_ptr());
  const auto whole = strategy_of(trial.on_one_device())->replica().flat().masters().numel();
  EXPECT_LT(elements, 1.1 * static_cast<double>(whole));
}

struct Layer : torch::nn::Module {
  explicit Layer(const std::string& name)
      : linear(register_module(name, torch::nn::Linear(6, 6))) {}
  torch::nn::Linear linear;
};

/// Three layers of a user's; none draws the same values.
nn::BlockList own_modules() {
  nn::BlockList blocks;
  for (const bool last : {false, false, true}) {
    const auto name = fmt::format("layer{}", blocks.size());
    const auto layer = std::make_shared<Layer>(name);
    const auto run = [layer, last](const nn::Bundle& in, const nn::Context&) -> nn::Bundle {
      const auto out = layer->linear->forward(in.at("x")).tanh();
      if (!last) return {{"x", out}};
      return {{"loss", out.square().sum()}, {"count", at::full({}, out.numel(), at::kLong)}};
    };
    blocks.push_back(std::make_shared<nn::ModuleBlock>(layer, run, name));
  }
  return blocks;
}

TEST(ThreadPipeline, TakesAListOfModulesWhoseFirstCopyGivesTheValues) {
  const MicroBatch batch{{{"x", at::arange(12).view({2, 6}).div(12.0)}}, at::arange(2, at::kLong)};
  const auto outcome = [&](int stages, int data) {
    torch::manual_seed(5);
    ReplicaOptions options;
    options.parallelism.micro_batches = 2;
    const std::vector<at::Device> devices(static_cast<size_t>(stages * data), at::kCPU);
    const auto strategy =
        make_thread_strategy(own_modules, devices, options, 1, std::chrono::seconds(20), stages);
    PipelineOutcome out;
    for (int64_t step = 0; step < 2; ++step) {
      const std::vector<MicroBatch> rows(2, batch);
      out.add(strategy->step(std::vector<std::vector<MicroBatch>>(static_cast<size_t>(data), rows),
                             input_of_step(step), {}));
    }
    out.add(strategy->weights());
    return out;
  };
  expect_same_bits(outcome(3, 1), outcome(1, 1));
  expect_same_bits(outcome(2, 2), outcome(1, 2));
}

TEST(ThreadPipeline, AStageThatThrowsIsNamedWithItsOperation) {
  for (const auto& [fault, where] :
       {std::pair{"exception@1:forward:1",
                  "stage 1 of 3, in step 1, forward block 2, micro-batch 0"},
        {"exception@2:backward:1", "stage 2 of 3, in step 1, backward block 3, micro-batch 0"},
        {"oom@0:send:1", "stage 0 of 3, in step 1, send block 1, micro-batch 0, to rank 1"}}) {
    const Trial trial{.stages = 3, .micro_batches = 4};
    const auto strategy = strategy_of(trial);
    ::setenv("CONVOY_FAULT", fault, 1);
    arm_fault(/*rank=*/0, /*num_ranks=*/3, /*restart_count=*/0, /*threads=*/true);
    tell_step(1);
    EXPECT_ANY_THROW(strategy->step(rows_of(trial, 0), input_of_step(0), {})) << fault;
    EXPECT_THAT(noted_failure(), HasSubstr(where));
    ::unsetenv("CONVOY_FAULT");
    arm_fault(0, 1, 0);
  }
}

/// Sleeps in its first forward in training.
class Asleep : public nn::Block {
 public:
  explicit Asleep(std::chrono::seconds pause) : Block("asleep"), pause_(pause) {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    std::this_thread::sleep_for(std::exchange(pause_, std::chrono::seconds(0)));
    return in;
  }

 private:
  std::chrono::seconds pause_;
};

// Stage 0 waits for stage 1, and that for stage 2.
TEST(ThreadPipeline, AStageThatDoesNotComeIsNamedAlsoFromAfar) {
  const Trial trial{.stages = 3, .layers = 4};
  const auto factory = [&] {
    auto blocks = trial.blocks();
    blocks.insert(blocks.end() - 1, std::make_shared<Asleep>(std::chrono::seconds(9)));
    return blocks;
  };
  auto options = trial.options();
  options.parallelism.pipeline.splits = {2, 4};
  auto strategy = make_thread_strategy(factory, std::vector<at::Device>(3, at::kCPU), options, 1,
                                       std::chrono::milliseconds(500), 3);
  const auto begin = std::chrono::steady_clock::now();
  try {
    strategy->step(rows_of(trial, 0), input_of_step(0), {});
    FAIL() << "it came";
  } catch (const CommunicationError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the others waited in vain for stage 2 of 3, in "));
    EXPECT_THAT(error.what(), HasSubstr("forward block 5, micro-batch 0"));
  }
  strategy.reset();  // without the stage that sleeps
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(7));
}

}  // namespace
}  // namespace convoy::parallel
