#include "convoy/nn/layers.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include "tests/nn/testing.h"

// Each layer against plain autograd on the same numbers.
namespace convoy::nn {
namespace {

TEST(Layers, LinearInBothLayouts) {
  for (bool in_first : {true, false}) {
    auto w = at::randn(in_first ? at::IntArrayRef{5, 3} : at::IntArrayRef{3, 5});
    auto b = at::randn({3});
    auto x = at::randn({2, 4, 5}).requires_grad_(true);
    auto probe = at::randn({2, 4, 3});
    auto weight = param(w.clone()), bias = param(b.clone());
    backward((linear(x, weight, bias, in_first) * probe).sum());

    auto x2 = x.detach().clone().requires_grad_(true);
    auto w2 = w.clone().requires_grad_(true), b2 = b.clone().requires_grad_(true);
    backward(((at::matmul(x2, in_first ? w2 : w2.t()) + b2) * probe).sum());
    expect_close(weight->grad(), w2.grad());
    expect_close(bias->grad(), b2.grad());
    expect_close(x.grad(), x2.grad());
  }
}

TEST(Layers, GradientsOfTwoUsesAddUp) {
  auto weight = param(at::randn({3, 3}));
  auto x = at::randn({4, 3});
  backward((linear(linear(x, weight, nullptr, true), weight, nullptr, true)).sum());
  auto w2 = weight->value().clone().requires_grad_(true);
  backward(at::mm(at::mm(x, w2), w2).sum());
  expect_close(weight->grad(), w2.grad());
}

TEST(Layers, EmbeddingSkipsPadding) {
  auto table = param(at::randn({6, 4}));
  auto ids = at::tensor({1, 2, 0, 2}, at::kLong).view({2, 2});
  backward(embedding(ids, table, true).sum());
  auto expected = at::zeros({6, 4});
  expected[1] += 1;
  expected[2] += 2;
  expect_close(table->grad(), expected);
}

TEST(Layers, LayerNorm) {
  auto x = at::randn({3, 8}).requires_grad_(true);
  auto w = at::randn({8}), b = at::randn({8}), probe = at::randn({3, 8});
  auto weight = param(w.clone()), bias = param(b.clone());
  backward((layer_norm(x, weight, bias, 1e-5) * probe).sum());
  auto x2 = x.detach().clone().requires_grad_(true);
  auto w2 = w.clone().requires_grad_(true), b2 = b.clone().requires_grad_(true);
  backward((at::layer_norm(x2, {8}, w2, b2, 1e-5) * probe).sum());
  expect_close(weight->grad(), w2.grad());
  expect_close(bias->grad(), b2.grad());
  expect_close(x.grad(), x2.grad());
}

TEST(Layers, PositionsBeyondTheSequenceGetNoGradient) {
  auto table = param(at::randn({6, 4}));
  auto x = at::randn({2, 3, 4}).requires_grad_(true);
  backward(add_positions(x, table).sum());
  expect_close(table->grad().narrow(0, 0, 3), at::full({3, 4}, 2.0));
  expect_close(table->grad().narrow(0, 3, 3), at::zeros({3, 4}));
}

AttentionOptions attention_options(double rate) {
  AttentionOptions options;
  options.dropout = rate;
  options.max_length = 5;
  return options;
}

TEST(Layers, AttentionIsCausalOnBothPaths) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  auto q = at::randn({2, 2, 5, 4}), k = at::randn({2, 2, 5, 4}), v = at::randn({2, 2, 5, 4});
  auto k2 = k.clone(), v2 = v.clone();
  k2.select(2, 4).fill_(9);
  v2.select(2, 4).fill_(9);
  for (double rate : {0.0, 0.4}) {
    auto a = attention(q, k, v, attention_options(rate), context);
    auto b = attention(q, k2, v2, attention_options(rate), context);
    expect_close(a.narrow(2, 0, 4), b.narrow(2, 0, 4));
    EXPECT_FALSE(at::allclose(a.select(2, 4), b.select(2, 4)));
  }
  // A rate near zero takes the composed path and must agree with the fused one.
  expect_close(attention(q, k, v, attention_options(0), context),
               attention(q, k, v, attention_options(1e-9), context));
}

TEST(Layers, AttentionSeesWhatTheKeyMaskLeaves) {
  Context context;
  context.samples = at::arange(2, at::kLong);
  auto q = at::randn({2, 2, 5, 4}), k = at::randn({2, 2, 5, 4}), v = at::randn({2, 2, 5, 4});
  auto mask = at::ones({2, 5}, at::kBool);
  mask[1][4] = false;
  for (double rate : {0.0, 1e-9}) {
    auto options = attention_options(rate);
    options.causal = false;
    options.key_mask = mask;
    auto out = attention(q, k, v, options, context);
    options.key_mask = at::Tensor();
    expect_close(out[0], attention(q, k, v, options, context)[0]);
    auto short_q = q.slice(0, 1), short_k = k.slice(0, 1).narrow(2, 0, 4);
    context.samples = at::arange(1, at::kLong);
    auto scores = at::softmax(at::matmul(short_q, short_k.transpose(2, 3)) / 2, -1);
    expect_close(out.slice(0, 1), at::matmul(scores, v.slice(0, 1).narrow(2, 0, 4)));
    context.samples = at::arange(2, at::kLong);
  }
}

TEST(Layers, ReplacedRowsGiveTheirGradientToTheReplacement) {
  auto x = at::randn({2, 3, 4}).requires_grad_(true);
  auto mask = at::zeros({2, 3}, at::kBool);
  mask[0][1] = mask[1][2] = true;
  auto e = param(at::randn({4}));
  auto probe = at::randn({2, 3, 4});
  auto out = replace_rows(x, mask, e);
  expect_close(out[0][1], e->value());
  expect_close(out[0][2], x[0][2]);
  backward((out * probe).sum());
  expect_close(e->grad(), probe[0][1] + probe[1][2]);
  expect_close(x.grad(), probe * ~mask.unsqueeze(2));
}

TEST(Layers, InitialValuesAreAFunctionOfSeedNameAndIndex) {
  ParamSpec spec{"a", {50, 20}, Init::normal(0.5)};
  auto a = at::empty({50, 20}), b = at::empty({50, 20});
  initialize(spec, 1, a);
  initialize(spec, 1, b);
  EXPECT_TRUE(at::equal(a, b));
  EXPECT_NEAR(a.std().item<double>(), 0.5, 0.03);
  initialize(spec, 2, b);
  EXPECT_FALSE(at::equal(a, b));
  spec.name = "b";
  initialize(spec, 1, b);
  EXPECT_FALSE(at::equal(a, b));
}

}  // namespace
}  // namespace convoy::nn
