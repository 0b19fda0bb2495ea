// Kernels of rows (add_norm.cu, softmax.cu) beside torch's operations in fp64, and layers that use
// them beside the host's.
#include <ATen/ATen.h>

#include "convoy/gpu/failures.h"
#include "convoy/nn/layers/add_norm.h"
#include "convoy/nn/losses/softmax_kernel.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using RowKernels = Gpu;

ParamPtr vector(const char* name, const at::Tensor& value) {
  ParamSpec spec{name, value.sizes().vec(), Init::ones()};
  auto out = std::make_shared<Param>(std::move(spec));
  out->bind_value(value);
  out->bind_grad(at::full_like(value, 7, value.options().dtype(at::kFloat)));
  return out;
}

struct Outcome {
  at::Tensor states, rows, x_grad, added_grad, weight_grad, bias_grad;
};

struct Case {
  int64_t rows, width;
  bool layer, adds, one_more;
  at::ScalarType added, weight;
};

/// add_norm() and its backward of some numbers, on `device`.
Outcome run(const Case& by, at::Device device) {
  at::manual_seed(7);
  const auto draw = [&](at::IntArrayRef sizes, at::ScalarType type) {
    return at::randn(sizes).to(type).to(device);
  };
  auto x = draw({by.rows, by.width}, at::kFloat).requires_grad_();
  auto added = draw({by.rows, by.width}, by.added).requires_grad_();
  const auto weight = vector("weight", draw({by.width}, by.weight));
  const auto bias = vector("bias", draw({by.width}, by.weight));
  const RowNorm norm{{weight, by.layer ? bias : nullptr},
                     1e-5,
                     ReadBy::Products,
                     by.one_more ? RmsFactor::OneMore : RmsFactor::Weight};
  const auto out = add_norm(x, by.adds ? added : at::Tensor(), norm);
  const auto more = draw({by.rows, by.width}, at::kFloat),
             some = draw({by.rows, by.width}, at::kFloat);
  ((out.states * more).sum() + (out.rows.to(at::kFloat) * some).sum()).backward();
  return {out.states.detach(),
          out.rows.detach(),
          x.grad(),
          by.adds ? added.grad() : at::Tensor(),
          weight->grad(),
          by.layer ? bias->grad() : at::Tensor()};
}

void expect_within(const at::Tensor& found, const at::Tensor& expected, double off) {
  ASSERT_EQ(found.defined(), expected.defined());
  if (!found.defined()) return;
  const auto y = expected.to(at::kDouble);
  const auto most = (found.cpu().to(at::kDouble) - y).abs().max().item<double>();
  EXPECT_LE(most, off * y.abs().max().item<double>());
}

TEST_F(RowKernels, NormaliseSumsAsTheHostDoes) {
  const auto before = gpu::failed_kernels().size();
  const auto wide = at::kFloat, narrow = at::kBFloat16;
  for (const Case& by : std::vector<Case>{
           {37, 64, true, true, false, wide, wide},  // a warp, half of it idle
           {37, 768, true, true, false, narrow, narrow},
           {5, 768, true, false, false, wide, narrow},
           {700, 132, false, true, false, narrow, wide},  // more rows than blocks go round
           {9, 2052, false, true, true, narrow, narrow},  // wider than a block
           {1, 8192, true, true, false, wide, wide},
           {3, 4, false, false, true, wide, wide},
       }) {
    SCOPED_TRACE(fmt::format("{} x {}{}{}", by.rows, by.width, by.layer ? " layer" : " rms",
                             by.adds ? " added" : ""));
    const auto here = run(by, gpu_), there = run(by, at::kCPU);
    const double off = by.weight == narrow ? 2e-2 : 2e-6;
    EXPECT_EQ(here.rows.scalar_type(), by.weight);
    expect_within(here.states, there.states, 1e-6);
    expect_within(here.rows, there.rows, off);
    expect_within(here.x_grad, there.x_grad, off);
    expect_within(here.added_grad, there.added_grad, by.added == narrow ? 2e-2 : off);
    expect_within(here.weight_grad, there.weight_grad, off);
    expect_within(here.bias_grad, there.bias_grad, off);
  }
  EXPECT_EQ(gpu::failed_kernels().size(), before) << gpu::failed_kernels().back();
}

TEST_F(RowKernels, LeaveWidthsToTorchThatTheyCannotTake) {
  const Case odd{6, 30, true, true, false, at::kFloat, at::kFloat};
  const auto here = run(odd, gpu_), there = run(odd, at::kCPU);
  expect_within(here.rows, there.rows, 2e-6);
  expect_within(here.x_grad, there.x_grad, 2e-6);
}

TEST_F(RowKernels, FindLossesAndSlopesOfAnyRows) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const int64_t stride : {64, 67, 5000}) {
      const int64_t count = stride - stride / 40 - (stride == 67 ? 0 : 3);
      SCOPED_TRACE(fmt::format("{} of {}", count, stride));
      ASSERT_TRUE(has_softmax_kernels(gpu_, dtype, count));
      at::manual_seed(stride);
      auto all = (at::randn({4, stride}) * 30).to(dtype);
      all[0][5] = 400;  // sure
      all[1][0] = -HUGE_VAL;
      all.narrow(1, count, stride - count).fill_(NAN);  // not read
      const auto columns = at::tensor({int64_t{5}, int64_t{7}, int64_t{0}, count - 1});
      const auto there = all.narrow(1, 0, count).to(at::kDouble);
      auto here = all.to(gpu_);
      auto scores = here.narrow(1, 0, count);
      const auto losses = cross_entropy_by_kernel(scores, columns.to(gpu_), {2.0, 0}, true);
      const auto log = at::log_softmax(there / 2, 1);
      auto slopes = log.exp();
      slopes.scatter_add_(1, columns.unsqueeze(1), -at::ones({4, 1}, at::kDouble));
      expect_within(losses, log.gather(1, columns.unsqueeze(1)).squeeze(1).neg(), 1e-6);
      expect_within(scores, slopes, dtype == at::kFloat ? 1e-6 : 1.0 / 256);
      EXPECT_EQ(here.narrow(1, count, stride - count).abs().sum().item<float>(), 0);
    }
  }
}

TEST_F(RowKernels, TellAScoreThatIsNoNumber) {
  auto scores = at::zeros({2, 64}, at::kFloat);
  scores[1][9] = NAN;
  auto here = scores.to(gpu_);
  const auto losses = cross_entropy_by_kernel(here, at::tensor({int64_t{3}, int64_t{9}}).to(gpu_),
                                              {}, /*wants_slope=*/false);
  EXPECT_NEAR(losses[0].item<float>(), std::log(64.0), 1e-5);
  EXPECT_TRUE(std::isnan(losses[1].item<float>()));
}

}  // namespace
}  // namespace convoy::nn
