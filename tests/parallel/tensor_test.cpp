#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/parallel/tensor_testing.h"

// Ranks that share out the weights of layers train as one device does.
namespace convoy::parallel::tensors {
namespace {

using testing::HasSubstr;

/// By how much losses and gradients may differ.
struct Bounds {
  double first_loss = 1e-6, gradient = 1e-5, loss = 1e-4;
};

void expect_close(const TensorOutcome& cut, const TensorOutcome& one, const Bounds& bounds = {}) {
  ASSERT_EQ(cut.losses.size(), one.losses.size());
  EXPECT_NEAR(cut.losses[0] / one.losses[0], 1, bounds.first_loss);
  for (size_t step = 0; step < one.losses.size(); ++step) {
    EXPECT_NEAR(cut.losses[step] / one.losses[step], 1, bounds.loss) << "step " << step;
    EXPECT_EQ(cut.counts[step], one.counts[step]) << "step " << step;
    EXPECT_NEAR(cut.norms[step] / one.norms[step], 1, 30 * bounds.loss) << "step " << step;
  }
  for (const auto& [name, grad] : one.first_grads) {
    ASSERT_TRUE(cut.first_grads.contains(name)) << name;
    // Softmax does not see what is added to all keys' products: its gradient is rounding.
    if (name.ends_with("key.bias")) continue;
    EXPECT_LT(distance(cut.first_grads.at(name), grad), bounds.gradient) << name;
  }
  for (const auto& [name, weights] : one.weights) {
    EXPECT_TRUE(cut.weights.at(name).isfinite().all().item<bool>()) << name;
  }
}

class Families : public testing::TestWithParam<std::string> {};

TEST_P(Families, TrainAsOnOneDevice) {
  Trial trial{.family = GetParam(), .steps = 20};
  const auto one = train(trial);
  if (GetParam() != "classifier") EXPECT_LT(one.losses.back(), one.losses.front());
  for (const int ranks : {2, 3, 4}) {
    SCOPED_TRACE(fmt::format("{} ranks", ranks));
    trial.mesh.tensor = ranks;
    expect_close(train(trial), one);
  }
}

TEST_P(Families, KeepTheirBitsWhereActivationsAreComputedAgain) {
  Trial trial{.family = GetParam(), .mesh = {.tensor = 2}};
  const auto kept = train(trial);
  trial.recomputes = true;
  expect_same_bits(train(trial), kept);
}

TEST_P(Families, TrainInBf16) {
  Trial trial{.family = GetParam(), .steps = 4};
  const auto exact = train(trial);
  trial.dtype = at::kBFloat16;
  const auto one = train(trial);
  // What rounding does to one device's gradients; T5's products are not scaled.
  double rounding = 0;
  for (const auto& [name, grad] : exact.first_grads) {
    if (!name.ends_with("key.bias")) {
      rounding = std::max(rounding, distance(one.first_grads.at(name), grad));
    }
  }
  trial.mesh.tensor = 2;
  expect_close(train(trial), one,
               {.first_loss = 1e-3, .gradient = std::max(2e-2, 1.5 * rounding), .loss = 2e-2});
}

INSTANTIATE_TEST_SUITE_P(All, Families,
                         testing::Values("gpt2", "gpt2 untied", "llama", "bert", "classifier", "t5",
                                         "session"),
                         [](const auto& info) {
                           auto name = info.param;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

TEST(TensorRanks, GoWithDataParallelism) {
  for (const std::string family : {"gpt2", "llama"}) {
    SCOPED_TRACE(family);
    Trial alone{.family = family, .mesh = {.tensor = 2}, .empties = false};
    const auto two = train(alone);
    Trial both{.family = family, .mesh = {.shard = 2, .tensor = 2}, .micro_batches = 1};
    both.empties = false;
    for (const int zero : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("zero {}", zero));
      both.zero = zero;
      if (zero < 2) {
        expect_same_bits(train(both), two);
      } else {
        EXPECT_EQ(train(both).losses, two.losses);
      }
    }
  }
}

TEST(TensorRanks, GoWithPipelines) {
  for (const std::string family : {"gpt2 untied", "llama", "gpt2"}) {
    SCOPED_TRACE(family);
    Trial alone{.family = family, .mesh = {.tensor = 2}};
    const auto two = train(alone);
    Trial both{.family = family, .mesh = {.pipeline = 2, .tensor = 2}};
    const auto four = train(both);
    if (family != "gpt2") {
      expect_same_bits(four, two);
    } else {
      expect_close(four, two);  // a tie is summed over stages
    }
  }
  Trial all{.mesh = {.pipeline = 2, .shard = 2, .tensor = 2}, .micro_batches = 2, .zero = 1};
  all.empties = false;
  Trial one{.micro_batches = 4, .empties = false};
  expect_close(train(all), train(one));
}

/// Does not know the ranks.
class OwnBlock : public nn::Block {
 public:
  explicit OwnBlock(const char* name) : Block(name) {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override { return in; }
};

TEST(TensorRanks, SayWhatDoesNotGo) {
  const auto refused = [](const std::string& family, int ranks) -> std::string {
    const schedule::Mesh mesh({.tensor = ranks}, 0, ranks);
    auto blocks = tensor_blocks(family);
    if (family == "own") {
      blocks.resize(1);
      for (const char* name : {"one", "two", "three"}) {
        blocks.push_back(std::make_shared<OwnBlock>(name));
      }
    }
    try {
      schedule::plan_run(nn::declare(blocks), mesh, Trial{}.options().run());
    } catch (const UsageError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refused("gpt2", 5), "");
  EXPECT_EQ(refused("llama", 6), "");
  EXPECT_THAT(refused("own", 2),
              HasSubstr("tensor_parallel_size = 2 needs blocks that compute with "
                        "a part of their weights"));
  EXPECT_THAT(refused("own", 2), HasSubstr("3 of this model's 4 do not: one, two, three;"));
  EXPECT_THAT(refused("gpt2", 6), HasSubstr("transformer.h.0.attn.c_attn.weight 5, "));
  EXPECT_THAT(refused("gpt2", 6), HasSubstr("and 3 more; try --tensor_parallel_size 5"));
}

}  // namespace
}  // namespace convoy::parallel::tensors
