#include "convoy/optim/built_in_optimizers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "convoy/optim/stochastic_rounding.h"
#include "tests/optim/testing.h"

namespace convoy::optim {
namespace {

constexpr Settings kHalved{.beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};

at::Tensor rounded(const at::Tensor& values, const at::Tensor& draws) {
  auto out = at::empty({values.numel()}, at::kBFloat16);
  lanes::each(0, values.numel(), [&](int64_t i, int64_t count) {
    lanes::Floats some;
    lanes::Bits words{};
    lanes::load(values.const_data_ptr<float>() + i, some, count);
    for (int64_t lane = 0; lane < count; ++lane) {
      words[lane] = static_cast<uint32_t>(draws.const_data_ptr<int64_t>()[i + lane]);
    }
    store_stochastically(some, words, static_cast<lanes::Bf16*>(out.mutable_data_ptr()) + i, count);
  });
  return out;
}

TEST(StochasticRounding, IsRightInTheMean) {
  // 1 + 0.3 of the distance to the next bf16 number: 0.3 of all possible draws round it up.
  const double step = std::exp2(-7), given = 1 + 0.3 * step;
  const auto values = at::full({65536}, given, at::kFloat);
  const auto draws = at::arange(65536, at::kLong);
  for (const double sign : {1.0, -1.0}) {
    const auto all = rounded(values * sign, draws).to(at::kDouble);
    EXPECT_NEAR(all.mean().item<double>(), sign * given, step * 1e-4);
    EXPECT_TRUE(all.eq(sign).logical_or(all.eq(sign * (1 + step))).all().item<bool>());
  }
}

TEST(StochasticRounding, LeavesWhatBf16Holds) {
  const auto values =
      at::tensor({0.0, -0.0, 1.0, -2.5, 1e30, 1e-39, INFINITY, -INFINITY}, at::kFloat)
          .to(at::kBFloat16)
          .to(at::kFloat);
  for (const int64_t draw : {0, 1, 65535}) {
    const auto draws = at::full({values.numel()}, draw, at::kLong);
    EXPECT_TRUE(rounded(values, draws).equal(values.to(at::kBFloat16)));
    EXPECT_TRUE(rounded_stochastically(values, draws).equal(values.to(at::kBFloat16)));
    const auto nan = at::full({20}, NAN, at::kFloat).view(at::kInt).bitwise_or(0x7FFFFFFF);
    const auto draws_of_nan = at::full({20}, draw, at::kLong);
    for (const auto& out : {rounded(nan.view(at::kFloat), draws_of_nan),
                            rounded_stochastically(nan.view(at::kFloat), draws_of_nan)}) {
      EXPECT_TRUE(out.isnan().all().item<bool>());
    }
  }
}

TEST(StochasticRounding, TensorOperationsRoundAlike) {
  at::manual_seed(1);
  const auto values = at::randn({1000}), draws = at::randint(65536, {1000}, at::kLong);
  EXPECT_TRUE(rounded(values, draws).equal(rounded_stochastically(values, draws)));
  // Of elements 77 to 576 of a parameter.
  const auto words = drawn_words(12345678901234567, 77, 500, at::kCPU);
  for (int64_t i = 0; i < 500; ++i) {
    DrawnWords group;
    draw_group(12345678901234567, static_cast<uint64_t>((77 + i) / kDrawGroup), group);
    const auto place = (77 + i) % kDrawGroup;
    ASSERT_EQ(words[i].item<int64_t>(), group[place / 16][place % 16]) << i;
  }
}

TEST(StochasticRounding, DrawsAnewForEachSeedStepAndParameter) {
  const std::set<uint64_t> keys{rounding_key(1, 1, "a"), rounding_key(2, 1, "a"),
                                rounding_key(1, 2, "a"), rounding_key(1, 1, "b"),
                                rounding_key(2, 2, "a")};
  EXPECT_EQ(keys.size(), 5U);
}

/// What one update does is AdamW's in fp32, but for how moments are rounded.
TEST(AdamWBf16, IsAdamWWithRoundedMoments) {
  const StepNumbers numbers{.learning_rate = 1e-2, .step = 7, .grad_divisor = 3, .seed = 4};
  const auto before = random_stretch(*make_adamw_bf16(kHalved), 1003, 0.1);
  auto expected = copy_of(before);
  for (auto& state : expected.states) state = state.to(at::kFloat);
  make_optimizer("adamw_torch", kHalved)->update(expected, numbers);
  const auto one = copy_of(before), other = copy_of(before);
  make_adamw_bf16(kHalved)->update(one, numbers);
  adamw_bf16_by_operations(other, numbers, kHalved);
  EXPECT_TRUE(one.weights.equal(expected.weights));
  EXPECT_TRUE(near(other.weights, expected.weights));
  for (size_t k = 0; k < 2; ++k) {
    const auto exact = expected.states[k].to(at::kDouble);
    for (const auto& state : {one.states[k], other.states[k]}) {
      const auto apart = (state.to(at::kDouble) - exact).abs();
      EXPECT_TRUE((apart <= exact.abs() * std::exp2(-7)).all().item<bool>());
      EXPECT_FALSE(state.equal(expected.states[k].to(at::kBFloat16))) << "rounded to nearest";
    }
    // Where sums come to other bits, a draw at the edge may fall to the other side.
    EXPECT_GT(one.states[k].eq(other.states[k]).sum().item<int64_t>(), 1000);
  }
}

/// Steps of 0.1 % and less, which bf16 to nearest does not see.
TEST(AdamWBf16, ItsSecondMomentFollowsThatOfFp32) {
  constexpr int64_t kCount = 4096, kMany = 2000;
  const auto halved = make_adamw_bf16(kHalved), full = make_optimizer("adamw_torch", kHalved);
  const auto fresh = [](const Optimizer& optimizer) {
    FlatRange out{at::zeros({kCount}), at::empty({kCount}), {}, {}};
    for (const auto& state : optimizer.states()) {
      out.states.push_back(at::zeros({kCount}, state.dtype));
    }
    out.spans = {{"weight", 0, 0, kCount}};
    return out;
  };
  const auto of_halved = fresh(*halved), of_full = fresh(*full);
  auto nearest = at::zeros({kCount}, at::kBFloat16);
  at::manual_seed(2);
  for (int64_t step = 1; step <= kMany; ++step) {
    const auto grads = at::randn({kCount}) * 0.1 + 1;
    of_halved.grads.copy_(grads);
    of_full.grads.copy_(grads);
    const StepNumbers numbers{.learning_rate = 1e-3, .step = step, .seed = 42};
    halved->update(of_halved, numbers);
    full->update(of_full, numbers);
    nearest.copy_(nearest.to(at::kFloat) * 0.999 + grads * grads * 0.001);
  }
  const auto exact = of_full.states[1].to(at::kDouble);
  const auto apart = of_halved.states[1].to(at::kDouble) / exact - 1;
  EXPECT_LT(std::abs(apart.mean().item<double>()), 0.005);
  EXPECT_LT(apart.abs().max().item<double>(), 0.2);
  EXPECT_LT(apart.std().item<double>(), 0.05);
  EXPECT_LT((nearest.to(at::kDouble) / exact).max().item<double>(), 0.6) << "it would freeze";
  const auto moved = of_halved.weights.to(at::kDouble) / of_full.weights.to(at::kDouble);
  EXPECT_NEAR(moved.mean().item<double>(), 1, 0.01);
}

}  // namespace
}  // namespace convoy::optim
