// The texts of kernels for GPUs, compiled for the host: what they compute of each element.
#include "convoy/gpu/failures.h"
#include "convoy/nn/attention/rotary.h"
#include "convoy/nn/attention/rotary_device.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/activation_device.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/dropout_device.h"
#include "convoy/nn/side_by_side.h"
#include "tests/nn/testing.h"

namespace convoy::nn {
namespace {

TEST(DeviceKernels, ActivationsAreTheHosts) {
  const std::vector<std::pair<std::string, Curve>> kinds{
      {"gelu", {.normal = true}},
      {"gelu_new", {.linear = 1.59576912f, .cubic = 0.0713548163f}},
      {"silu", {}},
      {"quick_gelu", {.linear = 1.702f}}};
  for (const auto& [kind, curve] : kinds) {
    SCOPED_TRACE(kind);
    auto x = at::cat({at::linspace(-12, 12, 400), at::tensor({-1e20f, -1e30f, 0.0f, 1e20f})})
                 .requires_grad_(true);
    auto up = at::randn(x.sizes()).requires_grad_(true);
    const auto probe = at::randn(x.sizes()), out = activate(kind, x, up);
    torch::autograd::backward({out}, {probe});
    const auto near = [](float a, float b) { return std::abs(a - b) <= 2e-6f * (1 + std::abs(b)); };
    for (int64_t i = 0; i < x.numel(); ++i) {
      const auto at = [i](const at::Tensor& t) { return t.detach().const_data_ptr<float>()[i]; };
      const float a = at(x), b = at(up), g = at(probe);
      EXPECT_TRUE(near(activation_element(curve, a, b), at(out))) << a;
      EXPECT_TRUE(near(activation_slope(curve, a, b, g, false), at(x.grad()))) << a;
      EXPECT_TRUE(near(activation_slope(curve, a, b, g, true), at(up.grad()))) << a;
    }
    EXPECT_TRUE(std::isnan(activation_element(curve, NAN, 1)));
  }
}

int64_t words(const at::Tensor& x, int64_t i) {
  return x.detach().contiguous().view(at::kLong).const_data_ptr<int64_t>()[i];
}

/// Of four numbers from `begin` on.
void expect_numbers(int64_t packed, const at::Tensor& expected, int64_t begin) {
  const auto flat = expected.detach().to(at::kFloat).view({-1});
  for (int i = 0; i < 4; ++i) {
    const float wanted = flat[begin + i].item<float>();
    EXPECT_NEAR(convoy_part(static_cast<uint64_t>(packed), i), wanted,
                1e-2 * (1 + std::abs(wanted)));
  }
}

TEST(DeviceKernels, PackedActivationsAreTheHosts) {
  const std::vector<std::pair<std::string, Curve>> kinds{
      {"gelu", {.normal = true}},
      {"gelu_new", {.linear = 1.59576912f, .cubic = 0.0713548163f}},
      {"silu", {}}};
  for (const auto& [kind, curve] : kinds) {
    auto x = (at::randn({64}) * 3).to(at::kBFloat16).requires_grad_(true);
    auto up = at::randn({64}).to(at::kBFloat16).requires_grad_(true);
    const auto probe = at::randn({64}).to(at::kBFloat16), out = activate(kind, x, up);
    torch::autograd::backward({out}, {probe});
    for (int64_t i = 0; i < 16; ++i) {
      const auto a = words(x, i), b = words(up, i), g = words(probe, i);
      expect_numbers(packed_activation(curve, a, b), out, 4 * i);
      expect_numbers(packed_slope(curve, a, b, g, false), x.grad(), 4 * i);
      expect_numbers(packed_slope(curve, a, b, g, true), up.grad(), 4 * i);
    }
    auto alone = x.detach().clone().requires_grad_(true);
    const auto active = activate(kind, alone);
    torch::autograd::backward({active}, {probe});
    for (int64_t i = 0; i < 16; ++i) {
      const auto a = words(alone, i), g = words(probe, i);
      expect_numbers(packed_activation(curve, a), active, 4 * i);
      expect_numbers(packed_slope(curve, a, g), alone.grad(), 4 * i);
    }
  }
}

TEST(DeviceKernels, ArePackedWhereTheyLieSo) {
  const auto x = at::zeros({6, 16}, at::kBFloat16);
  ASSERT_TRUE(packed(x).has_value());
  EXPECT_EQ(packed(x)->sizes(), (std::vector<int64_t>{6, 4}));
  EXPECT_TRUE(packed(x.narrow(1, 8, 8)).has_value());
  EXPECT_FALSE(packed(x.narrow(1, 6, 8)).has_value());  // begins within 64 bits
  EXPECT_FALSE(packed(x.narrow(1, 0, 6)).has_value());  // ends within them
  EXPECT_FALSE(packed(at::zeros({6, 18}, at::kBFloat16).narrow(1, 0, 16)).has_value());
  EXPECT_FALSE(packed(x.t()).has_value());
  EXPECT_FALSE(packed(x.to(at::kFloat)).has_value());
}

TEST(DeviceKernels, RotationHasTheHostsBits) {
  constexpr int64_t T = 5, E = 16, kHalf = E / 2;
  const auto tables = rotary_tables({}, T, E, at::kCPU);
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    const auto x = at::randn({1, 1, T, E}).to(dtype);
    const auto out = rotate(x, tables.cos, tables.sin);
    for (int64_t t = 0; t < T; ++t) {
      const float* cos = tables.cos.const_data_ptr<float>() + t * kHalf;
      const float* sin = tables.sin.const_data_ptr<float>() + t * kHalf;
      for (const bool upper : {false, true}) {
        for (int64_t i = 0; i < kHalf; i += 4) {
          const int64_t low = t * E + i, to = low + (upper ? kHalf : 0);
          if (dtype == at::kFloat) {
            const auto* from = x.const_data_ptr<float>();
            EXPECT_NEAR(turned_element(from[low], from[low + kHalf], cos[i], sin[i], upper, 1),
                        out.const_data_ptr<float>()[to], 1e-6);
          } else {
            const auto flat = x.view({-1});
            // A sum of two products may be rounded once or twice, before it is rounded to bf16.
            const auto turned = turned_packed(words(flat, low / 4), words(flat, (low + kHalf) / 4),
                                              cos + i, sin + i, upper, 1);
            expect_numbers(turned, out, to);
          }
        }
      }
    }
  }
}

TEST(DeviceKernels, DropsOfWholeChunksAreTheMasks) {
  Context context;
  context.seed = 5;
  context.samples = at::tensor({int64_t{3}, (int64_t{1} << 33) + 7});
  constexpr int64_t kLines = 3, kKeys = 256;
  const auto mask = dropout_mask({2, kLines, kKeys}, 0.4, context, 2);
  const auto stream = mask_stream(0.4, context, 2);
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t line = 0; line < kLines; ++line) {
      for (int64_t counter = 0; counter < kKeys / 8; ++counter) {
        const auto drops = static_cast<uint64_t>(
            drops_element(line * kKeys, counter, context.samples[row].item<int64_t>(), stream));
        for (int64_t i = 0; i < 8; ++i) {
          const int64_t key = counter / 16 * 128 + i * 16 + counter % 16;
          ASSERT_EQ(drops >> (8 * i) & 0xff, mask[row][line][key].item<float>() == 0 ? 1 : 0);
        }
      }
    }
  }
}

TEST(DeviceKernels, RunNowhereWithoutTorchsCompiler) {
  DeviceKernel kernel("convoy_nothing",
                      "template <typename T> T convoy_nothing(T x) { return x; }");
  EXPECT_FALSE(kernel.compiles());
  EXPECT_FALSE(kernel.run({at::ones({2})}).has_value());
  EXPECT_TRUE(gpu::failed_kernels().empty());
}

TEST(SideBySide, IsOneViewOfWhatLiesSo) {
  const auto all = at::randn({6, 10});
  const auto rows = all.split_with_sizes({1, 3, 2}), columns = all.split_with_sizes({4, 6}, 1);
  EXPECT_TRUE(side_by_side(rows, 0).is_alias_of(all));
  EXPECT_TRUE(at::equal(side_by_side(rows, 0), all));
  EXPECT_TRUE(at::equal(side_by_side(columns, 1), all));
  EXPECT_TRUE(at::equal(side_by_side({columns[1]}, 1), columns[1]));
  EXPECT_FALSE(side_by_side({rows[0], rows[2]}, 0).defined());          // a gap
  EXPECT_FALSE(side_by_side({rows[1], rows[0]}, 0).defined());          // another order
  EXPECT_FALSE(side_by_side({columns[0], columns[1]}, 0).defined());    // of other widths
  EXPECT_FALSE(side_by_side({rows[0], rows[1].clone()}, 0).defined());  // of another memory
  EXPECT_TRUE(at::equal(joined({rows[1], rows[0]}, 0), at::cat({rows[1], rows[0]})));
}

TEST(SideBySide, GradientsAreWrittenAtOnceOrApart) {
  const auto value = at::zeros({4});
  std::vector<ParamPtr> params{param(value.narrow(0, 0, 1)), param(value.narrow(0, 1, 3))};
  const auto write = [](at::Tensor& out, bool adds) {
    EXPECT_FALSE(adds);  // on the host a product is finished before it is added
    out.copy_(at::arange(4));
  };
  add_grads(params, at::kFloat, write);  // each has memory of its own
  EXPECT_TRUE(at::equal(params[1]->grad(), at::arange(1, 4).to(at::kFloat)));
  EXPECT_TRUE(params[0]->grad_comes_at_once());
  const auto flat = at::full({4}, 77.0f);
  params[0]->bind_grad(flat.narrow(0, 0, 1));
  params[1]->bind_grad(flat.narrow(0, 1, 3));
  void* filled = nullptr;
  add_grads(params, at::kFloat, [&](at::Tensor& out, bool adds) {
    filled = out.data_ptr();
    write(out, adds);
  });
  EXPECT_EQ(filled, flat.data_ptr());
  EXPECT_TRUE(at::equal(flat, at::arange(4).to(at::kFloat)));
  EXPECT_TRUE(params[0]->grad_comes_at_once());
  params[0]->bind_grad(flat.narrow(0, 0, 1), /*written=*/true, /*of_others=*/true);
  params[1]->bind_grad(flat.narrow(0, 1, 3), /*written=*/true);
  add_grads(params, at::kFloat, write);  // on top of what is there
  EXPECT_TRUE(at::equal(flat, at::arange(4).to(at::kFloat) * 2));
  EXPECT_TRUE(params[0]->grad_comes_at_once());
  EXPECT_FALSE(params[1]->grad_comes_at_once());
}

}  // namespace
}  // namespace convoy::nn
