#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/models/testing.h"

// Tensors of the meta device stand for those of a GPU: reading one is an error. B rows, T tokens.
namespace convoy::models {
namespace {

constexpr int64_t kIds = 50, B = 3, T = 8;

/// What the first block of `blocks` makes of a batch that is on a device, as training gives it.
nn::Bundle first_output(const nn::BlockList& blocks, const nn::Bundle& batch) {
  for (const auto& param : blocks[0]->params()) {
    param->bind_value(at::empty(param->shape(), at::TensorOptions(at::kMeta).dtype(at::kFloat)));
  }
  nn::Bundle on_device;
  for (const auto& [name, tensor] : batch) on_device[name] = tensor.to(at::kMeta);
  nn::Context context;
  context.samples = at::arange(B);
  context.loaded = &batch;
  const at::NoGradGuard no_grad;
  return blocks[0]->forward(on_device, context);
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

TEST(DeviceInputs, NoFirstBlockReadsWhatIsOnADevice) {
  const nn::Bundle batch{{"input_ids", at::arange(B * T).view({B, T}) + 1}};
  for (const auto& [name, blocks] : families()) {
    SCOPED_TRACE(name);
    const auto out = first_output(blocks, batch);
    for (const auto& [key, tensor] : out) EXPECT_TRUE(tensor.is_meta()) << key;
    EXPECT_EQ(out.at("asked").sizes(), out.at("targets").sizes());
    if (name == "gpt2" || name == "llama") {
      EXPECT_EQ(out.at("asked").numel(), B * (T - 1));
    }
    EXPECT_GT(out.at("asked").numel(), 0);
  }
}

TEST(DeviceInputs, IdsOutOfRangeAreRefusedThoughTheyAreOnADevice) {
  auto ids = at::arange(B * T).view({B, T}) + 1;
  ids[1][2] = kIds;
  for (const auto& [name, blocks] : families()) {
    try {
      first_output(blocks, {{"input_ids", ids}});
      ADD_FAILURE() << name << " took id 50";
    } catch (const UsageError& error) {
      EXPECT_NE(std::string(error.what()).find("input_ids hold 50; expected 0 to 49"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace convoy::models
