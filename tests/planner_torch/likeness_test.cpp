#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/nn.h>

#include "convoy/nn/layers/layers.h"
#include "convoy/nn/module_block.h"
#include "convoy/planner/cost/profile.h"
#include "convoy/planner/cost/trace.h"
#include "tests/models/testing.h"

// Which blocks stand for each other where it is learnt what they cost.
namespace convoy::planner {
namespace {

constexpr int64_t kTexts = 3, kWords = 12, kInner = 8;

parallel::MicroBatch states(int64_t width) {
  return {{{"hidden", at::ones({kTexts, kWords, width})}}, at::arange(kTexts, at::kLong)};
}

TEST(Likeness, TellsAShortLayerFromAWholeOne) {
  models::BertConfig config;
  config.hidden_size = config.intermediate_size = 16;
  config.num_attention_heads = 2;
  const nn::BlockList blocks{models::make_bert_layer(config, "bert", 0),
                             models::make_bert_layer(config, "bert", 1),
                             models::make_bert_layer(config, "bert", 2, models::Gives::First)};
  const auto counts = trace(blocks, states(16), {});
  EXPECT_LT(counts[2].forward, 0.6 * counts[1].forward);
  EXPECT_LT(counts[2].kept, 0.7 * counts[1].kept);
  const auto costs = profile(blocks, states(16), {});
  EXPECT_EQ(costs[2].returned_bytes * kWords, costs[1].returned_bytes);
}

/// A layer that keeps what each of some activations returns.
struct Layer : torch::nn::Module {
  Layer() : linear(register_module("linear", torch::nn::Linear(kInner, kInner))) {
    const at::NoGradGuard no_grad;
    linear->weight.fill_(0.5);
    linear->bias.fill_(0.25);
  }
  torch::nn::Linear linear;
};

struct Seen {
  int64_t runs = 0;
  bool all_given = true;  ///< weights were those that the module was made with
};

nn::BlockPtr module_of(const std::string& name, int64_t activations, Seen& seen,
                       const std::string& cost_key = "") {
  const auto layer = std::make_shared<Layer>();
  const auto run = [layer, activations, &seen](const nn::Bundle& in, const nn::Context&) {
    ++seen.runs;
    seen.all_given = seen.all_given && layer->linear->weight.eq(0.5).all().item<bool>() &&
                     layer->linear->bias.eq(0.25).all().item<bool>();
    auto x = layer->linear->forward(in.at("hidden"));
    for (int64_t n = 0; n < activations; ++n) x = x.tanh();
    return nn::Bundle{{"hidden", x}};
  };
  return std::make_shared<nn::ModuleBlock>(layer, run, name, cost_key);
}

TEST(Likeness, UnnamedModulesStayApart) {
  Seen seen;
  // Of one name, as modules have that nobody named.
  const nn::BlockList blocks{module_of("model", 1, seen), module_of("model", 1, seen),
                             module_of("model", 4, seen), module_of("model", 1, seen)};
  const auto counts = trace(blocks, states(kInner), {});
  EXPECT_EQ(counts[1].kept, counts[3].kept);
  constexpr double kEach = sizeof(float) * kWords * kInner;  // of a row
  EXPECT_EQ(counts[2].kept - counts[1].kept, 3 * kEach);
}

TEST(Likeness, ModulesOfOneKeyAreProfiledOnce) {
  Seen alone, together, other;
  const ProfileOptions once{.is_timed = false};  // what is timed is run more often
  profile({module_of("a", 1, other), module_of("b", 1, alone)}, states(kInner), once);
  profile({module_of("a", 1, other), module_of("b", 1, together, "layer"),
           module_of("c", 1, together, "layer"), module_of("d", 1, together, "layer")},
          states(kInner), once);
  EXPECT_EQ(together.runs, alone.runs);
  EXPECT_LT(together.runs, 3 * 3) << "each would run three times at least";
  EXPECT_GE(alone.runs, 3);
  EXPECT_TRUE(together.all_given && other.all_given);
}

TEST(Likeness, LayersOfABodyShareAKey) {
  const models::Small size{.layers = 4};
  const auto all_alike = [](const nn::BlockList& blocks, size_t first, size_t number) {
    for (size_t n = 1; n < number; ++n) {
      EXPECT_EQ(blocks[first]->cost_key(), blocks[first + n]->cost_key());
    }
    EXPECT_NE(blocks[first]->cost_key(), blocks.back()->cost_key());
  };
  all_alike(models::small_gpt2(size).make_blocks(), 1, 4);
  all_alike(models::small_llama(size).make_blocks(), 1, 4);
  all_alike(models::small_bert(size).make_blocks(), 1, 4);
  all_alike(models::small_t5(size).make_blocks(), 1, 4);
  auto other = models::small_gpt2(size);
  other.attn_pdrop = 0;
  EXPECT_NE(other.make_blocks()[1]->cost_key(),
            models::small_gpt2(size).make_blocks()[1]->cost_key());
}

}  // namespace
}  // namespace convoy::planner
