#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/activation.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "convoy/nn/attention/rotary.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"
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

TEST(Layers, ProductsOfOneInputKeepOneCopyOfItInTheirType) {
  const auto x = at::randn({500, 64}).requires_grad_(true);
  const std::vector<DenseParams> dense{{param(at::randn({8, 64}).to(at::kBFloat16)), nullptr},
                                       {param(at::randn({8, 64}).to(at::kBFloat16)), nullptr},
                                       {param(at::randn({8, 64}).to(at::kBFloat16)), nullptr}};
  const PeakMemory memory;
  const auto outs = linears(x, dense, TensorRanks());
  const int64_t results = 3 * 500 * 8 * 2, copy = 500 * 64 * 2;
  EXPECT_GE(memory.held(), results + copy);
  EXPECT_LT(memory.held(), results + copy + copy / 2);
  backward((outs[0] + outs[1] + outs[2]).sum());
  EXPECT_EQ(x.grad().scalar_type(), at::kFloat);
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

// Of a few ids each comes many times, as of the words of a text. That of a GPU runs here, too.
TEST(Layers, RowsAreAddedToATableOneByOneOrByTheirSums) {
  for (const auto& [V, n] : {std::pair{25, 500}, {700, 500}, {700, 1}, {700, 0}}) {
    const auto places = at::randint(0, 7, {n}, at::kLong) * 3;
    const auto before = at::randn({V, 12}), rows = at::randn({n, 12});
    for (const double scale : {1.0, -1.0}) {
      auto exact = before.to(at::kDouble);
      for (int64_t i = 0; i < n; ++i) {
        exact[places[i].item<int64_t>()] += scale * rows[i].to(at::kDouble);
      }
      for (const auto how :
           {AddRows::Automatic, AddRows::InPlace, AddRows::OfATable, AddRows::BySums}) {
        auto table = before.clone(), again = before.clone();
        add_rows(table, places, rows, scale, how);
        EXPECT_LE((table - exact).abs().max().item<double>(), 1e-4) << static_cast<int>(how);
        add_rows(again, places, rows, scale, how);
        EXPECT_TRUE(at::equal(table, again)) << "in the same order";
      }
    }
  }
}

// What a GPU adds them by.
TEST(Layers, SumsOfRowsHaveTheBitsOfASecondTableAndNotItsMemory) {
  const int64_t V = 20'000, n = 300, D = 64;
  const auto places = at::randint(0, 90, {n}, at::kLong) * 200;
  const auto rows = at::randn({n, D}), before = at::randn({V, D});
  const auto expected = before.add(at::embedding_dense_backward(rows, places, V, -1, false), -1);
  auto table = before.clone();
  const PeakMemory memory;
  add_rows(table, places, rows, -1, AddRows::BySums);
  EXPECT_LT(memory.peak(), static_cast<int64_t>(table.nbytes()) / 8);
  EXPECT_TRUE(at::equal(table, expected));
}

TEST(Layers, RmsNorm) {
  for (const auto& [rows, width] : {std::pair{3, 8}, {70, 37}, {1, 16}, {0, 4}}) {
    SCOPED_TRACE(width);
    auto x = at::randn({rows, width}).requires_grad_(true);
    auto w = at::randn({width}), probe = at::randn({rows, width});
    auto weight = param(w.clone());
    auto out = rms_norm(x, weight, 1e-3);
    backward((out * probe).sum());
    auto x2 = x.detach().clone().requires_grad_(true), w2 = w.clone().requires_grad_(true);
    auto expected = w2 * x2 * at::rsqrt(x2.square().mean(-1, true) + 1e-3);
    backward((expected * probe).sum());
    expect_close(out, expected);
    // A sum over the rows, whose terms cancel each other.
    EXPECT_TRUE(at::allclose(weight->grad(), w2.grad(), 1e-5, 1e-5));
    expect_close(x.grad(), x2.grad());
  }
}

at::Tensor expected_activation(const std::string& kind, const at::Tensor& x) {
  if (kind == "relu") return at::relu(x);
  if (kind == "silu" || kind == "swish") return at::silu(x);
  if (kind == "tanh") return at::tanh(x);
  if (kind == "quick_gelu") return x * at::sigmoid(1.702 * x);
  return at::gelu(x, kind == "gelu" ? "none" : "tanh");
}

/// 300 x 101 numbers: most within 5 of zero, some far away, zero and the infinitely large.
at::Tensor wide_range() {
  auto x = at::randn({300, 101}, at::kDouble) * 2;
  x[0] *= 10;
  x[1][0] = 0;
  const double large[] = {1e6, 1e13, 1e18, 1e30};
  for (int64_t i = 0; i < 4; ++i) {
    x[1][2 * i + 1] = large[i];
    x[1][2 * i + 2] = -large[i];
  }
  return x;
}

TEST(Layers, ActivationsAreTheirFormulasInDoublePrecision) {
  for (const auto& kind : activations()) {
    for (const bool gated : {false, true}) {
      SCOPED_TRACE(kind + (gated ? ", gated" : ""));
      const auto x = wide_range(), up = at::randn({300, 101}, at::kDouble),
                 probe = at::randn_like(up);
      auto x1 = x.to(at::kFloat).requires_grad_(true), up1 = up.to(at::kFloat).requires_grad_(true);
      auto x2 = x1.detach().to(at::kDouble).requires_grad_(true);
      auto up2 = up1.detach().to(at::kDouble).requires_grad_(true);
      auto out = activate(kind, x1, gated ? up1 : at::Tensor());
      auto expected = expected_activation(kind, x2);
      if (gated) expected = expected * up2;
      backward((out * probe.to(at::kFloat)).sum());
      backward((expected * probe.to(at::kFloat)).sum());
      auto near = [](const at::Tensor& a, const at::Tensor& b) {
        return at::allclose(a.to(at::kDouble), b, 2e-6, 2e-6);
      };
      EXPECT_TRUE(near(out, expected)) << (out - expected).abs().max();
      EXPECT_TRUE(near(x1.grad(), x2.grad())) << (x1.grad() - x2.grad()).abs().max();
      EXPECT_TRUE(!gated || near(up1.grad(), up2.grad()));
    }
  }
}

TEST(Layers, ActivationsOfBf16AreThoseOfFp32Rounded) {
  for (const auto& kind : activations()) {
    SCOPED_TRACE(kind);
    auto low = wide_range().to(at::kBFloat16).requires_grad_(true);
    auto x = low.detach().to(at::kFloat).requires_grad_(true);
    auto out = activate(kind, low), expected = activate(kind, x);
    EXPECT_TRUE(out.equal(expected.to(at::kBFloat16)));
    const auto probe = at::randn({300, 101}).to(at::kBFloat16);
    torch::autograd::backward({out}, {probe});
    torch::autograd::backward({expected}, {probe.to(at::kFloat)});
    if (kind == "tanh") continue;  // torch takes its slope from the rounded output
    EXPECT_TRUE(at::allclose(low.grad().to(at::kFloat), x.grad(), 1e-2, 1e-6));
  }
}

TEST(Layers, ActivationsTellThatANumberIsNone) {
  for (const auto& kind : activations()) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto out = activate(kind, at::full({20}, NAN, dtype));
      EXPECT_TRUE(out.isnan().all().item<bool>()) << kind;
    }
  }
}

TEST(Layers, AnActivationIsTheSameWhereverItStands) {
  for (const auto& kind : activations()) {
    const auto x = at::randn({1000});
    const auto whole = activate(kind, x);
    for (const int64_t begin : {1, 15, 16, 500}) {
      EXPECT_TRUE(activate(kind, x.narrow(0, begin, 77)).equal(whole.narrow(0, begin, 77))) << kind;
    }
  }
}

TEST(Layers, AGatedActivationKeepsItsInputsOnly) {
  for (const auto& kind : activations()) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const auto gate = at::randn({300, 100}).to(dtype).requires_grad_(true);
      const auto up = at::randn({300, 100}).to(dtype).requires_grad_(true);
      PeakMemory memory;
      const auto out = activate(kind, gate, up);
      EXPECT_LE(memory.held(), static_cast<int64_t>(out.nbytes()) + 4096) << kind;
    }
  }
}

TEST(Layers, ActivationsByTorchAreTheirFormulasToo) {
  // What has no kernel here: a GPU's, fp16, and this one, fp64.
  for (const auto& kind : activations()) {
    SCOPED_TRACE(kind);
    const auto x = at::randn({300, 5}, at::kDouble), up = at::randn_like(x);
    auto x1 = x.clone().requires_grad_(true), up1 = up.clone().requires_grad_(true);
    auto x2 = x.clone().requires_grad_(true), up2 = up.clone().requires_grad_(true);
    const auto out = activate(kind, x1, up1), expected = expected_activation(kind, x2) * up2;
    const auto probe = at::randn_like(x);
    backward((out * probe).sum());
    backward((expected * probe).sum());
    expect_close(out, expected);
    expect_close(x1.grad(), x2.grad());
    expect_close(up1.grad(), up2.grad());
  }
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

TEST(Layers, RotationIsTheFormulaWhereverRowsStand) {
  constexpr int64_t B = 3, H = 2, T = 5;
  for (const int64_t E : {8, 38, 64}) {
    for (const auto dtype : {at::kFloat, at::kBFloat16}) {
      const auto x = at::randn({B, T, H, E}).to(dtype).transpose(1, 2);
      for (const bool apart : {false, true}) {
        const auto positions = at::arange(B * T).view({B, T});
        auto tables =
            apart ? rotary_tables({}, positions, B * T, E) : rotary_tables({}, T, E, at::kCPU);
        if (apart) tables = {tables.cos.unsqueeze(1), tables.sin.unsqueeze(1)};
        const auto both = at::complex(tables.cos, tables.sin);
        const auto wide = x.to(at::kFloat);
        const auto turned =
            at::complex(wide.narrow(3, 0, E / 2), wide.narrow(3, E / 2, E / 2)) * both;
        const auto expected = at::cat({at::real(turned), at::imag(turned)}, 3);
        EXPECT_TRUE(at::allclose(rotate(x, tables.cos, tables.sin).to(at::kFloat),
                                 expected.to(dtype).to(at::kFloat), 1e-2, 1e-6));
        if (dtype == at::kFloat) expect_close(rotate(x, tables.cos, tables.sin), expected);
      }
    }
  }
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

TEST(Layers, ARowOfZerosIsOneInEveryPartThatHasSomeOfIt) {
  ParamSpec spec{"a", {50, 20}, Init::normal(0.5)};
  auto whole = at::empty({50, 20});
  initialize(spec, 1, whole);
  whole[7] = 0;
  spec.init.zero_row = 7;
  auto parts = at::empty({1000});
  for (const auto& [begin, end] : {std::pair(0, 145), {145, 151}, {151, 1000}}) {
    initialize(spec, 1, parts.narrow(0, begin, end - begin), begin);
  }
  EXPECT_TRUE(at::equal(parts.view({50, 20}), whole));
  auto odd = at::empty({25, 20});
  initialize_rows(spec, 1, odd, 1, 2);
  EXPECT_TRUE(at::equal(odd, whole.slice(0, 1, 50, 2)));
}

}  // namespace
}  // namespace convoy::nn
