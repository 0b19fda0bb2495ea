#include <gtest/gtest.h>

#include "convoy/checkpoint/load_pretrained.h"
#include "tests/train/causal_testing.h"

// Models of texts are the same computation on one device, two replicas and two ranks, whether
// activations are kept or computed again.
namespace convoy::train {
namespace {

constexpr int64_t kCausalSteps = 12;

class CausalStrategies : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  static Outcome train(int64_t accumulation, const job::Job& job, bool recompute) {
    const auto& [family, bf16] = GetParam();
    auto arguments = short_run(4, accumulation, kCausalSteps);
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
    expect_same_bits(expected, train(2, one_device(), recompute), kCausalSteps);
    expect_same_bits(expected, train(1, replicas(2), recompute), kCausalSteps);
    expect_same_bits(expected,
                     outcome_of_ddp([&](const job::Job& job) { return train(1, job, recompute); }),
                     kCausalSteps);
  }
}

using PretrainedModel = InFolder;

TEST_F(PretrainedModel, ATrainerStartsWithTheWeightsOfAFolder) {
  const auto config = models::small_gpt2({.ids = kIds, .width = 24, .heads = 3, .length = kLength});
  auto arguments = short_run(4, 1, kCausalSteps);
  arguments.save_strategy = "steps";
  arguments.output.dir = (folder_ / "run").string();
  Trainer trained([&] { return config.make_blocks(); }, arguments, texts(), texts());
  ModelFiles files;
  files.config = config.to_json();
  trained.set_files(files);
  trained.train();
  const double expected = trained.evaluate().at("eval_loss");

  const auto model = checkpoint::load_pretrained(folder_ / "run");
  arguments.output.dir.clear();
  Trainer again(model.blocks, arguments, texts(), texts(), model.weights);
  EXPECT_TRUE(again.is_main());
  EXPECT_EQ(again.evaluate().at("eval_loss"), expected);
}

INSTANTIATE_TEST_SUITE_P(Families, CausalStrategies,
                         testing::Combine(testing::Values("gpt2", "llama", "t5", "bert"),
                                          testing::Bool()));

}  // namespace
}  // namespace convoy::train
