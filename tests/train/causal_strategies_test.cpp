#include <gtest/gtest.h>

#include "convoy/models/gpt2.h"
#include "convoy/models/llama.h"
#include "tests/train/testing.h"

// Language models are the same computation on one device, two replicas and two ranks, whether
// activations are kept or computed again.
namespace convoy::train {
namespace {

constexpr int64_t kSteps = 12, kIds = 70, kLength = 16;

nn::BlockList gpt2() {
  models::Gpt2Config config;
  config.vocab_size = kIds;
  config.n_embd = 24;
  config.n_head = 3;
  config.n_layer = 2;
  config.n_positions = kLength;
  return config.make_blocks();
}

nn::BlockList llama() {
  models::LlamaConfig config;
  config.vocab_size = kIds;
  config.hidden_size = 24;
  config.intermediate_size = 40;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.num_hidden_layers = 2;
  config.max_position_embeddings = kLength;
  config.attention_dropout = 0.1;
  return config.make_blocks();
}

/// Rows that follow a rule; labels of every third row's first half are ignored.
std::shared_ptr<Dataset> texts() {
  return make_map_dataset(61, [](const std::vector<int64_t>& rows) {
    auto first = at::tensor(rows, at::kLong).unsqueeze(1);
    auto ids = (first * 5 + at::arange(kLength, at::kLong) * (first % 7 + 1)).remainder(kIds);
    auto labels = ids.clone();
    labels.masked_fill_((first % 3 == 0) & (at::arange(kLength, at::kLong) < kLength / 2), -100);
    return nn::Bundle{{"input_ids", ids}, {"labels", labels}};
  });
}

class CausalStrategies : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  static Outcome train(int64_t accumulation, const Job& job, bool recompute) {
    const auto& [family, bf16] = GetParam();
    TrainingArguments arguments;
    arguments.per_device_train_batch_size = 4;
    arguments.gradient_accumulation_steps = accumulation;
    arguments.gradient_checkpointing = recompute;
    arguments.bf16 = bf16;
    arguments.max_steps = kSteps;
    arguments.learning_rate = 3e-3;
    arguments.weight_decay = 0.01;
    arguments.logging_steps = 1;
    arguments.save_strategy = "no";
    arguments.output.quiet = true;
    return outcome_of(family == std::string("gpt2") ? gpt2 : llama, texts(), arguments, job);
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
                         testing::Combine(testing::Values("gpt2", "llama"), testing::Bool()));

}  // namespace
}  // namespace convoy::train
