#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <set>

#include "convoy/base/error.h"
#include "tests/models/testing.h"

// Other numbers stand for what a device holds and nobody may read. B rows, T tokens.
namespace convoy::models {
namespace {

constexpr int64_t kIds = 50, B = 3, T = 8;

/// What the first block of `blocks` makes of `in`; `loaded`: where the host has it.
nn::Bundle first_output(const nn::BlockList& blocks, const nn::Bundle& in,
                        const nn::Bundle* loaded) {
  for (const auto& param : blocks[0]->params()) param->bind_value(at::zeros(param->shape()));
  nn::Context context;
  context.samples = at::arange(B);
  context.loaded = loaded;
  const at::NoGradGuard no_grad;
  return blocks[0]->forward(in, context);
}

std::vector<std::pair<std::string, nn::BlockList>> families() {
  const Small size{.ids = kIds};
  auto gpt2 = small_gpt2(size);
  gpt2.embd_pdrop = 0;
  auto bert = small_bert(size);
  bert.hidden_dropout_prob = 0;
  auto t5 = small_t5(size);
  t5.dropout_rate = 0;
  t5.corruption.sentinel_ids = {49, 48, 47, 46};
  return {{"gpt2", gpt2.make_blocks()},
          {"llama", small_llama(size).make_blocks()},
          {"bert", bert.make_blocks()},
          {"t5", t5.make_blocks()}};
}

TEST(DeviceInputs, AskedPositionsComeFromTheLoadedBatch) {
  const nn::Bundle batch{{"input_ids", at::arange(B * T).view({B, T}) + 1}};
  const nn::Bundle decoy{{"input_ids", at::full({B, T}, 3, at::kLong)}};
  for (const auto& [name, blocks] : families()) {
    SCOPED_TRACE(name);
    const auto expected = first_output(blocks, batch, nullptr);
    const auto found = first_output(blocks, decoy, &batch);
    for (const char* key : {"asked", "targets"}) {
      EXPECT_TRUE(at::equal(found.at(key), expected.at(key))) << key;
      EXPECT_GT(found.at(key).numel(), 0);
    }
    EXPECT_FALSE(
        at::equal(first_output(blocks, decoy, nullptr).at("targets"), expected.at("targets")))
        << "this test cannot fail";
  }
}

TEST(DeviceInputs, IdsOutOfRangeAreRefusedWhereTheBatchWasLoaded) {
  auto ids = at::arange(B * T).view({B, T}) + 1;
  const nn::Bundle decoy{{"input_ids", ids.clone()}};
  ids[1][2] = kIds;
  const nn::Bundle batch{{"input_ids", ids}};
  for (const auto& [name, blocks] : families()) {
    try {
      first_output(blocks, decoy, &batch);
      ADD_FAILURE() << name << " took id 50";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("input_ids hold 50; expected 0 to 49"),
                std::string::npos)
          << error.what();
    }
  }
}

// What a stage hands on travels to the next one with each micro-batch.
TEST(DeviceInputs, LlamaSendsNoRotaryTables) {
  const auto ids = at::arange(B * T).view({B, T}) + 1;
  const auto blocks = small_llama({.ids = kIds}).make_blocks();
  for (const bool packed : {false, true}) {
    nn::Bundle batch{{"input_ids", ids}};
    if (packed) batch["positions"] = at::arange(T).expand({B, T}).contiguous();
    for (const auto& block : blocks) {
      for (const auto& param : block->params()) param->bind_value(at::zeros(param->shape()));
    }
    nn::Context context;
    context.samples = at::arange(B);
    context.loaded = &batch;
    const at::NoGradGuard no_grad;
    auto bundle = batch;
    for (size_t b = 0; b + 1 < blocks.size(); ++b) {
      bundle = blocks[b]->forward(bundle, context);
      std::set<std::string> keys;
      for (const auto& [name, tensor] : bundle) {
        if (!batch.contains(name)) keys.insert(name);
      }
      EXPECT_EQ(keys, (std::set<std::string>{"asked", "hidden", "targets"})) << "block " << b;
    }
  }
}

}  // namespace
}  // namespace convoy::models
