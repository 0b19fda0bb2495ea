#include "convoy/nn/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/nn/rms_norm.h"
#include "convoy/nn/rotary.h"
#include "convoy/nn/swiglu.h"
#include "tests/nn/peak_memory.h"
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

TEST(Layers, EmbeddingAddsToWhatOthersGaveAndMakesNoTable) {
  auto table = param(at::randn({4000, 8}));
  table->add_grad(at::ones({4000, 8}));
  auto ids = at::tensor({3, 3999, 3}, at::kLong);
  PeakMemory memory;
  backward(embedding(ids, table, false).sum());
  EXPECT_LT(memory.peak(), 4000 * 8 * 4 / 4);
  auto expected = at::ones({4000, 8});
  expected[3] += 2;
  expected[3999] += 1;
  expect_close(table->grad(), expected);
}

TEST(Layers, RmsNorm) {
  auto x = at::randn({3, 8}).requires_grad_(true);
  auto w = at::randn({8}), probe = at::randn({3, 8});
  auto weight = param(w.clone());
  auto out = rms_norm(x, weight, 1e-3);
  backward((out * probe).sum());
  auto x2 = x.detach().clone().requires_grad_(true), w2 = w.clone().requires_grad_(true);
  auto expected = w2 * x2 * at::rsqrt(x2.square().mean(-1, true) + 1e-3);
  backward((expected * probe).sum());
  expect_close(out, expected);
  expect_close(weight->grad(), w2.grad());
  expect_close(x.grad(), x2.grad());
}

TEST(Layers, SwigluKeepsItsInputsOnly) {
  auto gate = at::randn({300, 100}).requires_grad_(true), up = at::randn({300, 100});
  up.requires_grad_(true);
  auto probe = at::randn({300, 100});
  {
    PeakMemory memory;
    auto out = swiglu(gate, up);
    EXPECT_LE(memory.held(), 300 * 100 * 4 + 4096);
    backward((out * probe).sum());
  }
  auto gate2 = gate.detach().clone().requires_grad_(true);
  auto up2 = up.detach().clone().requires_grad_(true);
  backward((at::silu(gate2) * up2 * probe).sum());
  expect_close(gate.grad(), gate2.grad());
  expect_close(up.grad(), up2.grad());
}

TEST(Layers, RotationIsUndoneByItsGradient) {
  auto tables = rotary_tables({}, 5, 8, at::kCPU);
  auto x = at::randn({2, 3, 5, 8}).requires_grad_(true);
  auto out = rotate(x, tables.cos, tables.sin);
  expect_close(out.select(2, 0), x.select(2, 0));
  expect_close(out.norm(2, 3), x.norm(2, 3));
  EXPECT_FALSE(at::allclose(out.select(2, 4), x.select(2, 4)));
  backward((out * out.detach()).sum());  // a rotation: R^T R x
  expect_close(x.grad(), x);
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
