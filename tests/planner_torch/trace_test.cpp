#include "convoy/planner/cost/trace.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/nn/layers/layers.h"
#include "convoy/planner/cost/skipped_products.h"
#include "tests/models/testing.h"

namespace convoy::planner {
namespace {

constexpr int64_t kRows = 3, kLength = 12;

/// Texts of full length whose words are their targets.
parallel::MicroBatch texts(bool labels = true) {
  const auto ids = at::arange(kRows * kLength, at::kLong).remainder(40).add_(3).view({kRows, -1});
  parallel::MicroBatch out{{{"input_ids", ids}}, at::arange(kRows, at::kLong)};
  if (labels) out.inputs["labels"] = ids;
  return out;
}

std::vector<BlockCounts> traced(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                                at::ScalarType dtype = at::kFloat) {
  return trace(blocks, batch, {.compute_dtype = dtype});
}

/// Two products, and what they keep.
class TwoLayers : public nn::Block {
 public:
  TwoLayers(const std::string& name, int64_t width, int64_t inner)
      : Block(name),
        first_(declare_matrix(name + ".first", {inner, width}, nn::Init::ones())),
        second_(declare_matrix(name + ".second", {width, inner}, nn::Init::ones())),
        bias_(declare_vector(name + ".bias", width)) {}

  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    const auto inner = nn::linear(in.at("x"), first_, nullptr, false);
    return {{"x", nn::linear(inner, second_, bias_, false)}, {"table", in.at("table")}};
  }

 private:
  nn::ParamPtr first_, second_, bias_;
};

TEST(Trace, CountsWhatIsKeptAndWhatIsPutOff) {
  constexpr double kWidth = 8, kInner = 24, kFloat = sizeof(float);
  const nn::BlockList blocks{std::make_shared<TwoLayers>("a", 8, 24),
                             std::make_shared<TwoLayers>("b", 8, 24),
                             std::make_shared<TwoLayers>("c", 8, 24)};
  // A table has no rows of the batch.
  const parallel::MicroBatch batch{{{"x", at::ones({5, 8})}, {"table", at::ones({2})}},
                                   at::arange(5, at::kLong)};
  const auto all = traced(blocks, batch);
  const double products = 2 * kWidth * kInner * 2;
  for (size_t b = 0; b < all.size(); ++b) {
    SCOPED_TRACE(b);
    EXPECT_EQ(all[b].forward, products);
    EXPECT_EQ(all[b].weight, products);
    // The batch takes no gradient.
    EXPECT_EQ(all[b].backward, b == 0 ? 1.5 * products : 2 * products);
    EXPECT_EQ(all[b].kept, kFloat * (kInner + kWidth));
    EXPECT_EQ(all[b].returned, kFloat * kWidth);
    EXPECT_EQ(all[b].sent, kFloat * kWidth);
    EXPECT_EQ(all[b].sent_grad, kFloat * kWidth);
    // Inputs and gradients of both layers, but for the batch.
    EXPECT_EQ(all[b].put_off, kFloat * (2 * kInner + (b == 0 ? 1 : 2) * kWidth));
  }
  EXPECT_EQ(traced(blocks, batch), all);
}

/// A product that autograd knows, as a user's module has it.
class Plain : public nn::Block {
 public:
  Plain() : Block("plain") {}
  nn::Bundle forward(const nn::Bundle& in, const nn::Context&) override {
    return {{"x", at::mm(in.at("x"), weight_)}};
  }

 private:
  at::Tensor weight_ = at::ones({8, 4}).requires_grad_();
};

TEST(Trace, CountsWhatTorchComputesOnce) {
  const parallel::MicroBatch batch{{{"x", at::ones({5, 8})}}, at::arange(5, at::kLong)};
  const auto all = traced({std::make_shared<Plain>()}, batch);
  EXPECT_EQ(all[0].forward, 2 * 8 * 4);
  EXPECT_EQ(all[0].backward, 2 * 8 * 4);  // of the weight
}

TEST(SkippedProducts, AreZerosOfTheirShapeUnlessAutogradKnowsThem) {
  const auto a = at::ones({2, 3}), b = at::ones({3, 4}), sum = at::ones({2, 4});
  const auto batch = [](const at::Tensor& t) { return t.unsqueeze(0); };
  auto out = at::empty({0});
  {
    const SkippedProducts skipped;
    for (const auto& zeros : {at::mm(a, b), at::addmm(sum, a, b), at::mm_out(out, a, b)}) {
      EXPECT_TRUE(zeros.equal(at::zeros({2, 4})));
    }
    EXPECT_TRUE(at::matmul(batch(a), batch(b)).equal(at::zeros({1, 2, 4})));
    EXPECT_TRUE(sum.clone().addmm_(a, b).equal(sum));
    EXPECT_TRUE((a + a).equal(at::full({2, 3}, 2.0)));
    const auto weight = b.clone().requires_grad_(true);
    auto product = at::mm(a, weight);
    product.sum().backward();
    EXPECT_TRUE(product.equal(at::full({2, 4}, 3.0)));
    EXPECT_EQ(weight.grad().sizes(), b.sizes());
  }
  EXPECT_TRUE(at::mm(a, b).equal(at::full({2, 4}, 3.0)));
}

TEST(Trace, TiedWeightGradientsAreNotDeferred) {
  const models::Small size{.ids = 60, .width = 32, .layers = 1, .length = kLength};
  auto config = models::small_gpt2(size);
  config.tie_word_embeddings = false;
  const auto own = traced(config.make_blocks(), texts());
  config.tie_word_embeddings = true;
  const auto tied = traced(config.make_blocks(), texts());
  for (const auto& counts : {own, tied}) {
    EXPECT_GT(counts[1].weight, 0.45 * counts[1].backward);  // but for attention
    EXPECT_GT(counts[1].put_off, counts[1].returned);
    EXPECT_LT(counts[1].put_off, counts[1].kept);
  }
  EXPECT_EQ(own[1], tied[1]);
  EXPECT_EQ(tied.back().weight, 0);
}

TEST(Trace, CountsTheSameWithoutArithmetic) {
  constexpr int64_t kLong = 512, kMany = 2;  // tensors large enough to be left out
  const models::Small size{.ids = 600, .width = 128, .heads = 4, .layers = 2, .length = kLong};
  const auto ids = at::arange(kMany * kLong, at::kLong).remainder(600).view({kMany, -1});
  const parallel::MicroBatch batch{{{"input_ids", ids}, {"labels", ids}},
                                   at::arange(kMany, at::kLong)};
  auto gpt2 = models::small_gpt2(size);
  auto llama = models::small_llama(size), grouped = llama;
  gpt2.attn_pdrop = llama.attention_dropout = grouped.attention_dropout = 0;  // torch's attention
  llama.num_key_value_heads = size.heads;
  for (const auto& blocks : {gpt2.make_blocks(), llama.make_blocks(), grouped.make_blocks(),
                             models::small_llama(size).make_blocks()}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto all = trace(blocks, batch, {.compute_dtype = dtype});
      auto shapes = trace(blocks, batch, {.compute_dtype = dtype, .shapes_only = true});
      for (size_t b = 0; b < all.size(); ++b) {
        // A few are other operations.
        for (const auto field : {&BlockCounts::forward_kernels, &BlockCounts::backward_kernels,
                                 &BlockCounts::forward_made, &BlockCounts::backward_made}) {
          EXPECT_GT(all[b].*field, 0) << b;
          EXPECT_NEAR(shapes[b].*field, all[b].*field, 2 + 0.3 * all[b].*field) << b;
          shapes[b].*field = all[b].*field;
        }
      }
      EXPECT_EQ(shapes, all);
      EXPECT_GT(all[1].kept, 0);
    }
  }
}

TEST(Trace, CountsTheProductsOfTheGatedDeltaRuleWithoutArithmetic) {
  const models::Small size{.ids = 60, .width = 32, .heads = 4, .layers = 1, .length = 700};
  auto config = models::small_decoder(models::kQwen35Text, size);
  config.head_dim = 8;
  config.layer_types = {models::kLinearAttention};
  config.linear_num_key_heads = 2;
  config.linear_num_value_heads = 6;
  config.linear_key_head_dim = 16;
  config.linear_value_head_dim = 12;
  const auto ids = at::arange(2 * 700, at::kLong).remainder(60).view({2, -1});
  const parallel::MicroBatch batch{{{"input_ids", ids}}, at::arange(2, at::kLong)};
  const auto blocks = config.make_blocks();
  const auto all = trace(blocks, batch, {})[1];
  const auto shapes = trace(blocks, batch, {.shapes_only = true})[1];
  EXPECT_GT(all.forward, 0);
  EXPECT_NEAR(shapes.forward / all.forward, 1, 1e-9);
  EXPECT_NEAR(shapes.backward / all.backward, 1, 1e-9);
  EXPECT_EQ(shapes.kept, all.kept);
}

TEST(Trace, CountsWhatAGpuLaunches) {
  const models::Small size{.width = 32, .heads = 4, .layers = 3, .length = kLength};
  auto config = models::small_gpt2(size);
  config.attn_pdrop = config.resid_pdrop = config.embd_pdrop = 0;
  const auto one = traced(config.make_blocks(), texts());
  const auto& layer = one[1];
  // The simulated GPU runs 33 operations of a layer (tests/fake_gpu/counts.md), an H200 launched
  // about 75 times in bf16: some operations are several kernels.
  EXPECT_GT(layer.forward_kernels + layer.backward_kernels, 33);
  EXPECT_LT(layer.forward_kernels + layer.backward_kernels, 75);
  EXPECT_EQ(layer.times(4).forward_kernels, layer.forward_kernels);
}

TEST(Trace, CountsTheProductsOfALlama) {
  const models::Small size{.width = 32, .heads = 4, .layers = 3, .length = kLength};
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto config = models::small_llama(size);
    const auto all = traced(config.make_blocks(), texts(), dtype);
    const double tokens = kLength, d = 32, keys = 16, inner = 48;
    const double weights = d * d * 2 + d * keys * 2 + d * inner * 3;
    for (size_t b = 0; b < all.size(); ++b) {
      SCOPED_TRACE(b);
      if (all[b].forward == 0) continue;  // a table is looked up
      if (b + 1 == all.size()) {          // its loss gives gradients in forward
        EXPECT_NEAR(all[b].forward + all[b].backward, 3 * 2 * (tokens - 1) * 50 * d, 1e3);
        continue;
      }
      EXPECT_EQ(all[b].forward, 2 * tokens * (weights + 2 * d * kLength));
      EXPECT_GE(all[b].backward, 1.9 * all[b].forward);
      EXPECT_EQ(all[b].weight, 2 * tokens * weights);
    }
  }
}

TEST(Trace, AHeadCostsByItsTargetsAndADecoderByItsOwnLength) {
  // A seventh of the positions have targets; one row may have none or many.
  constexpr double kIds = 500, kWidth = 32;
  const auto bert = models::small_bert({.ids = 500, .width = 32, .length = kLength});
  const auto ids = at::arange(8 * kLength, at::kLong).remainder(400).add_(50).view({8, -1});
  const parallel::MicroBatch rows{{{"input_ids", ids}}, at::arange(8, at::kLong)};
  const auto head = traced(bert.make_blocks(), rows).back();
  const double everywhere = 3 * 2 * kLength * kIds * kWidth;
  EXPECT_GT(head.forward + head.backward, 0.05 * everywhere);
  EXPECT_LT(head.forward + head.backward, 0.5 * everywhere);
  auto t5 = models::small_t5({.ids = 60, .width = 32, .layers = 2});
  auto batch = texts();
  const auto whole = traced(t5.make_blocks(), batch);
  batch.inputs["labels"] = batch.inputs["labels"].narrow(1, 0, 3).contiguous();
  const auto part = traced(t5.make_blocks(), batch);
  EXPECT_LT(part.back().forward, 0.5 * whole.back().forward);
}

}  // namespace
}  // namespace convoy::planner
