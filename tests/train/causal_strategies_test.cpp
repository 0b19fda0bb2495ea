#include <gtest/gtest.h>

#include "tests/train/causal_testing.h"

// Models of texts are the same computation on one device, two replicas and two ranks, whether
// activations are kept or computed again.
namespace convoy::train {
namespace {

constexpr int64_t kSteps = 12;

class CausalStrategies : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  static Outcome train(int64_t accumulation, const Job& job, bool recompute) {
    const auto& [family, bf16] = GetParam();
    auto arguments = short_run(4, accumulation, kSteps);
    arguments.gradient_checkpointing = recompute;
    arguments.bf16 = bf16;
    const std::string name = family;
    if (name == "t5") return outcome_of(small_t5, plain_texts(), arguments, job);
    if (name == "bert") return outcome_of(small_bert, plain_texts(), arguments, job);
    return outcome_of(name == "gpt2" ? small_gpt2 : small_llama, texts(), arguments, job);
  }
};

TEST_P(CausalStrategies, AreTheSameBitForBit) {
  const auto expected = train(2, one_device(), false);
  EXPECT_LT(expected.losses.back(), expected.losses.front());
  for (bool recompute : {false, true}) {
    expect_same_bits(expected, train(2, one_device(), recompute), kSteps);
    expect_same_bits(expected, train(1, replicas(2), recompute), kSteps);
    expect_same_bits(
        expected, outcome_of_ddp([&](const Job& job) { return train(1, job, recompute); }), kSteps);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CausalStrategies,
                         testing::Combine(testing::Values("gpt2", "llama", "t5", "bert"),
                                          testing::Bool()));

}  // namespace
}  // namespace convoy::train
