#include "convoy/optim/adamw.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

using namespace convoy;
using namespace convoy::optim;

namespace {

Slice slice_of(int64_t count) {
  at::manual_seed(3);
  return {at::randn({count}), at::randn({count}), {at::randn({count}), at::rand({count})}, {}};
}

Slice copy_of(const Slice& from) {
  Slice to{from.weights.clone(), from.grads.clone(), {}, {}};
  for (size_t k = 0; k < to.moments.size(); ++k) to.moments[k] = from.moments[k].clone();
  return to;
}

constexpr AdamWOptions kOptions{.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-6};

/// By the paper's lines, in double precision.
Slice expected_of(const Slice& from, double rate, double decay, int64_t step, double divisor) {
  const auto t = static_cast<double>(step);
  auto w = from.weights.to(at::kDouble), g = from.grads.to(at::kDouble) / divisor;
  auto m = from.moments[0].to(at::kDouble), v = from.moments[1].to(at::kDouble);
  m = kOptions.beta1 * m + (1 - kOptions.beta1) * g;
  v = kOptions.beta2 * v + (1 - kOptions.beta2) * g * g;
  const auto m_hat = m / (1 - std::pow(kOptions.beta1, t));
  const auto v_hat = v / (1 - std::pow(kOptions.beta2, t));
  w = w * (1 - rate * decay) - rate * m_hat / (v_hat.sqrt() + kOptions.epsilon);
  return {w, g, {m, v}, {}};
}

bool near(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a.to(at::kDouble), b, 1e-6, 1e-6);
}

}  // namespace

TEST(AdamW, IsThePapersInDoublePrecision) {
  auto slice = slice_of(1003);
  const auto expected = expected_of(slice, 1e-2, 0.1, 7, 3);
  adamw_step(slice, kOptions, 1e-2, 0.1, 7, 3);
  EXPECT_TRUE(near(slice.weights, expected.weights));
  EXPECT_TRUE(near(slice.moments[0], expected.moments[0]));
  EXPECT_TRUE(near(slice.moments[1], expected.moments[1]));
}

TEST(AdamW, RoundsTheNewWeightsToTheComputeDtype) {
  for (const auto dtype : {at::kBFloat16, at::kHalf}) {
    auto slice = slice_of(1003);
    slice.rounded = at::zeros({1003}, dtype);
    adamw_step(slice, kOptions, 1e-2, 0.1, 7, 3);
    EXPECT_TRUE(slice.rounded.equal(slice.weights.to(dtype)));
  }
}

TEST(AdamW, GivesTheSameBitsHoweverASliceIsCut) {
  const auto whole = slice_of(1003);
  auto all = copy_of(whole), cut = copy_of(whole);
  adamw_step(all, kOptions, 1e-2, 0.1, 7, 3);
  for (const auto& [begin, end] : {std::pair{0, 5}, {5, 21}, {21, 1003}}) {
    auto part = [&, begin = begin, end = end](const at::Tensor& t) {
      return t.slice(0, begin, end);
    };
    adamw_step(
        {part(cut.weights), part(cut.grads), {part(cut.moments[0]), part(cut.moments[1])}, {}},
        kOptions, 1e-2, 0.1, 7, 3);
  }
  EXPECT_TRUE(all.weights.equal(cut.weights));
  EXPECT_TRUE(all.moments[0].equal(cut.moments[0]));
  EXPECT_TRUE(all.moments[1].equal(cut.moments[1]));
}

TEST(AdamW, ChangesNothingElse) {
  auto weights = at::ones({40});
  adamw_step({weights.narrow(0, 3, 18), at::ones({18}), {at::zeros({18}), at::zeros({18})}, {}},
             kOptions, 1e-2, 0.1, 1, 1);
  EXPECT_TRUE(weights.narrow(0, 0, 3).equal(at::ones({3})));
  EXPECT_TRUE(weights.narrow(0, 21, 19).equal(at::ones({19})));
  EXPECT_TRUE((weights.narrow(0, 3, 18) < 1).all().item<bool>());
}
