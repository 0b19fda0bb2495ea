#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "tests/parallel_torch/tensor_testing.h"

// Tensor ranks that share out the tokens, too, train as those that do not.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

std::set<std::string> cut_params(const std::string& family) {
  std::set<std::string> out;
  for (const auto& param : nn::params_of(tensor_blocks(family))) {
    if (param->spec().cut.dim >= 0) out.insert(param->spec().name);
  }
  return out;
}

class SequenceFamilies : public testing::TestWithParam<std::string> {
 protected:
  /// Whether all that is computed of a share has the bits that it has of all: products with whole
  /// matrices may not, nor gradients of states that three products read (a shared expert's, too).
  bool keeps_bits() const {
    const auto& family = GetParam();
    return family != "bert" && family != "classifier" && family != "qwen3_next" &&
           !of_sessions(family);
  }
};

TEST_P(SequenceFamilies, BeginWithTheBitsOfTensorRanks) {
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    Trial trial{.family = GetParam(), .mesh = {.tensor = ranks}, .steps = 6};
    trial.evaluates = true;
    const auto whole = train(trial);
    trial.sequence = true;
    const auto shared = train(trial);
    if (keeps_bits()) {
      EXPECT_EQ(shared.losses[0], whole.losses[0]);
    }
    for (const auto& [name, grad] : whole.first_grads) {
      if (name.ends_with("key.bias")) continue;  // rounding
      const auto& other = shared.first_grads.at(name);
      if (keeps_bits() && cut_params(GetParam()).contains(name)) {
        EXPECT_TRUE(at::equal(other, grad)) << name;
      } else {
        EXPECT_LT(distance(other, grad), 1e-5) << name;
      }
    }
    expect_close(shared, whole);
    ASSERT_EQ(shared.evaluated.size(), whole.evaluated.size());
    for (const auto& [name, value] : whole.evaluated) {
      EXPECT_TRUE(at::allclose(shared.evaluated.at(name), value, 1e-6)) << name;
    }
  }
}

TEST_P(SequenceFamilies, KeepTheirBitsWhereActivationsAreComputedAgain) {
  Trial trial{.family = GetParam(), .mesh = {.tensor = 2}, .sequence = true};
  const auto kept = train(trial);
  trial.recomputes = true;
  expect_same_bits(train(trial), kept);
}

TEST_P(SequenceFamilies, TrainInBf16) {
  Trial trial{.family = GetParam(), .mesh = {.tensor = 2}, .dtype = at::kBFloat16};
  const auto whole = train(trial);
  trial.sequence = true;
  expect_close(train(trial), whole, {.first_loss = 1e-3, .gradient = 4e-2, .loss = 2e-2});
}

INSTANTIATE_TEST_SUITE_P(All, SequenceFamilies, testing::ValuesIn(kFamilies), name_of_family);

TEST(SequenceParallel, TrainsWhereSomeRanksHaveNoToken) {
  for (const std::string family : {"gpt2", "llama", "olmo2", "bert", "t5"}) {
    SCOPED_TRACE(family);
    Trial trial{.family = family, .empties = false, .rows = 1, .length = 3};
    const auto one = train(trial);
    trial.mesh.tensor = 4;
    trial.sequence = true;
    expect_close(train(trial), one);
  }
}

TEST(SequenceParallel, GoesWithDataParallelism) {
  for (const std::string family : {"gpt2", "llama"}) {
    SCOPED_TRACE(family);
    Trial one{.family = family, .micro_batches = 4, .empties = false};
    const auto alone = train(one);
    Trial both{.family = family, .mesh = {.shard = 2, .tensor = 2}, .empties = false};
    both.sequence = true;
    const auto first = train(both);
    expect_close(first, alone);
    for (const int zero : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("zero {}", zero));
      both.zero = zero;
      const auto sharded = train(both);
      zero == 1 ? expect_same_bits(sharded, first) : expect_close(sharded, first);
    }
  }
}

TEST(SequenceParallel, GoesWithPipelines) {
  for (const std::string family : {"gpt2 untied", "llama", "t5", "gpt2"}) {
    SCOPED_TRACE(family);
    Trial alone{.family = family, .mesh = {.tensor = 2}, .sequence = true};
    const auto two = train(alone);
    Trial both{.family = family, .mesh = {.pipeline = 2, .tensor = 2}, .sequence = true};
    for (const char* schedule : {"1f1b", "zero_bubble"}) {
      SCOPED_TRACE(schedule);
      both.schedule = schedule;
      const auto four = train(both);
      family == "gpt2" ? expect_close(four, two) : expect_same_bits(four, two);
    }
  }
  Trial all{.mesh = {.pipeline = 2, .shard = 2, .tensor = 2}, .zero = 1, .sequence = true};
  all.empties = false;
  Trial one{.micro_batches = 4, .empties = false};
  expect_close(train(all), train(one));
}

TEST(SequenceParallel, SkipsTheStepsThatOneDeviceSkips) {
  Trial trial{.steps = 3, .dtype = at::kHalf};
  trial.loss_scales = {1, std::exp2(30), 64};
  const auto one = train(trial);
  trial.mesh.tensor = 2;
  trial.sequence = true;
  EXPECT_EQ(train(trial).skipped, (std::vector<bool>{false, true, false}));
  EXPECT_EQ(one.skipped, (std::vector<bool>{false, true, false}));
}

/// Knows tensor ranks, but not their shares of tokens.
class WholeBlock : public nn::Block {
 public:
  WholeBlock() : Block("own") {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override { return in; }
  bool takes_tensor_ranks() const override { return true; }
};

TEST(SequenceParallel, SaysWhichBlocksDoNotTakeShares) {
  auto blocks = tensor_blocks("gpt2");
  blocks.insert(blocks.begin() + 1, std::make_shared<WholeBlock>());
  Trial trial{.mesh = {.tensor = 2}};
  const parallel::Mesh mesh(trial.mesh, 0, 2);
  parallel::plan_run(nn::declare(blocks), mesh, trial.options().parallelism);
  trial.sequence = true;
  try {
    parallel::plan_run(nn::declare(blocks), mesh, trial.options().parallelism);
    FAIL() << "accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sequence_parallel needs blocks that compute with a rank's "
                                        "share of the tokens"));
    EXPECT_THAT(error.what(), HasSubstr("1 of this model's 5 do not: own; try without it"));
  }
}

}  // namespace
}  // namespace convoy::parallel::tensors
