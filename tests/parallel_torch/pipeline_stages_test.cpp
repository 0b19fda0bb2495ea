#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include <atomic>

#include "convoy/base/error.h"
#include "convoy/nn/module_block.h"
#include "tests/parallel_torch/pipeline_testing.h"

// What each stage of a pipeline holds, and which cuts there are.
namespace convoy::parallel {
namespace {

using testing::HasSubstr;

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
    return {{"loss", x.sum()}, {"count", at::zeros({}, at::kLong)}};  // it trains nothing
  }
  std::vector<nn::NamedTensor> buffers() override { return {{name() + ".count", count_}}; }

 private:
  bool last_;
  at::Tensor count_ = at::zeros({1});
};

TEST(PipelineStages, BuffersAreThoseOfTheStageThatRunsTheirBlock) {
  std::mutex mutex;
  run_pipeline_ranks(2, 2, std::chrono::seconds(20), [&](const comm::Groups& groups, int rank) {
    nn::BlockList blocks;
    for (const char* name : {"a", "b", "c", "d"}) {
      blocks.push_back(std::make_shared<Counting>(name, *name == 'd'));
    }
    ReplicaOptions options;
    options.parallelism.micro_batches = 2;
    options.parallelism.pipeline.splits = {2};
    Replica replica(blocks, groups, options);
    replica.start();
    for (int64_t step = 0; step < 3; ++step) {
      const MicroBatch batch{{{"x", at::ones({2, 3})}}, at::arange(2, at::kLong)};
      replica.step({batch, batch}, input_of_step(step), {});
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

TEST(PipelineStages, EachRankHoldsItsOwnBlocksOnly) {
  const auto blocks = PipelineTrial().blocks();
  const int64_t num_parameters =
      FlatBuffers(blocks, parallel::layout_of(nn::declare(blocks), {}), {}).num_parameters();
  std::atomic<int64_t> held = 0;
  run_pipeline_ranks(2, 1, std::chrono::seconds(20), [&](const comm::Groups& groups, int rank) {
    Replica replica(PipelineTrial().blocks(), groups, {});
    replica.start();
    for (const auto& slot : replica.flat().all_slots()) held += slot.length;
    const auto& there = blocks[rank == 0 ? 3 : 0]->params().front()->spec().name;
    EXPECT_FALSE(replica.flat().value_of(there).defined());
    EXPECT_EQ(replica.flat().num_parameters(), num_parameters);
  });
  EXPECT_EQ(held, num_parameters);
}

TEST(PipelineStages, AnEvaluationGoesThroughAllStages) {
  const PipelineTrial trial{.schedule = "interleaved"};
  std::map<int, nn::Bundle> outs;
  std::mutex mutex;
  for (const int stages : {1, 2}) {
    run_pipeline_ranks(stages, 1, std::chrono::seconds(20),
                       [&](const comm::Groups& groups, int rank) {
                         Replica replica(trial.blocks(), groups, trial.options());
                         replica.start();
                         auto out = replica.forward(trial.batch(0, 0), nn::Mode::Evaluate);
                         EXPECT_EQ(out.empty(), rank + 1 < stages);
                         const std::lock_guard lock(mutex);
                         if (!out.empty()) outs[stages] = std::move(out);
                       });
  }
  EXPECT_TRUE(at::equal(outs.at(1).at("loss"), outs.at(2).at("loss")));
}

TEST(PipelineStages, BlocksThatDoNotGoIntoStagesAreTold) {
  const auto model = nn::declare(PipelineTrial().blocks());
  const auto refusal = [&](int stages, const parallel::PipelineOptions& options) -> std::string {
    try {
      plan_run(model, {{.pipeline = stages}, 0, stages}, {.pipeline = options});
    } catch (const UsageError& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refusal(5, {}), HasSubstr("a pipeline of 5 stages needs as many blocks; got a model "
                                        "of 4 ("));
  EXPECT_THAT(refusal(3, {.schedule = &parallel::kInterleaved}),
              HasSubstr("3 stages with 2 virtual stages each"));
  EXPECT_THAT(refusal(2, {.splits = {1, 2}}), HasSubstr("makes 3 virtual stages; expected 1"));
  EXPECT_THAT(refusal(3, {.splits = {2, 2}}), HasSubstr("must ascend between 1 and 3"));
  EXPECT_THAT(refusal(2, {.splits = {4}}), HasSubstr("must ascend between 1 and 3"));
  const auto plan = plan_run(model, {{.pipeline = 2}, 0, 2}, {.pipeline = {.splits = {3}}});
  EXPECT_EQ(stages_of(plan.cut), (parallel::Stages{{0, 1, 2}, {3}}));
}

TEST(PipelineStages, AUsersModulesOfOtherStagesTakeNoMemoryAndDoNotTravel) {
  constexpr int kStages = 3, kData = 2, kWidth = 128;
  constexpr int64_t kBytes = 4 * kWidth * (kWidth + 1);
  const auto forward = [](const nn::Bundle& in, const nn::Context&) { return in; };
  const auto work = [&](const comm::Groups& groups, int rank) {
    const int stage = groups.pipeline.rank();
    nn::BlockList blocks;
    std::vector<torch::nn::Linear> modules;
    for (int b = 0; b < kStages; ++b) {
      modules.emplace_back(kWidth, kWidth);
      const torch::NoGradGuard no_grad;
      modules.back()->weight.fill_(10 * rank + b);
      modules.back()->bias.fill_(10 * rank + b);
      const auto name = "block" + std::to_string(b);
      auto module = std::make_shared<torch::nn::Module>();
      module->register_module(name, modules.back());
      blocks.push_back(std::make_shared<nn::ModuleBlock>(module, forward, name));
    }
    ReplicaOptions options;
    options.parallelism.micro_batches = kStages;
    Replica replica(blocks, groups, options);
    replica.start();
    for (int b = 0; b < kStages; ++b) {
      for (const auto& param : modules[static_cast<size_t>(b)]->parameters()) {
        EXPECT_EQ(param.numel() > 0, b == stage) << "rank " << rank;
        EXPECT_TRUE(param.eq(b).all().item<bool>()) << "rank 0's";
      }
    }
    // To the other stages goes what they hold, from rank 0 alone; within a stage what it holds,
    // then each half of it from its owner.
    const auto most = kBytes * (rank == 0 ? kStages : 1) + kBytes * 3 / 4;
    EXPECT_LE(groups.traffic().bytes, most) << "rank " << rank;
    EXPECT_GE(groups.traffic().bytes, kBytes) << "rank " << rank;
  };
  run_pipeline_ranks(kStages, kData, std::chrono::seconds(20), work);
}

}  // namespace
}  // namespace convoy::parallel
