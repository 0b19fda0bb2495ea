// Products of frozen weights with adapters, on a GPU and on the host.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/nn/layers/layers.h"
#include "convoy/nn/layers/lora.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"
#include "tests/gpu/calls_of.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using Adapters = Gpu;

constexpr int64_t kWidth = 16, kRank = 2;
const std::vector<int64_t> kHeights{12, 6, 6};
constexpr int64_t kHeight = 24;  // of all

/// Queries, keys and values: frozen weights in one memory, some with adapters.
struct FrozenProjections {
  std::vector<DenseParams> dense;
  std::vector<ParamPtr> trained;

  FrozenProjections(at::Device device, at::ScalarType dtype, bool biased,
                    const std::vector<bool>& adapted) {
    at::manual_seed(4);
    const auto draw = [&](std::vector<int64_t> sizes) {
      return at::randn(sizes).to(device, dtype);
    };
    const auto weights = draw({kHeight, kWidth}), biases = draw({kHeight});
    int64_t begin = 0;
    for (size_t i = 0; i < kHeights.size(); ++i) {
      const int64_t length = kHeights[i];
      const auto module = "m" + std::to_string(i);
      const auto frozen = [&](const char* name, const at::Tensor& values) {
        auto param =
            std::make_shared<Param>(ParamSpec{module + name, values.sizes().vec(), Init::zeros()});
        param->freeze();
        param->bind_value(values);
        return param;
      };
      DenseParams one{frozen(".weight", weights.narrow(0, begin, length)), nullptr};
      if (biased) one.bias = frozen(".bias", biases.narrow(0, begin, length));
      if (adapted[i]) {
        const auto adapter =
            std::make_shared<LowRank>(one.weight->spec(), LoraOptions{.r = kRank, .scale = 0.5});
        for (const auto& param : {adapter->down(), adapter->up()}) {
          param->bind_value(draw(param->spec().shape));
          param->bind_grad(at::zeros(param->spec().shape, at::TensorOptions(device)));
          trained.push_back(param);
        }
        one.weight->set_adapter(adapter);
      }
      dense.push_back(one);
      begin += length;
    }
  }
};

/// Products, the input's gradient and those of the adapters, on the host.
std::vector<at::Tensor> project(at::Device device, at::ScalarType dtype, bool biased,
                                const std::vector<bool>& adapted) {
  const FrozenProjections all(device, dtype, biased, adapted);
  at::manual_seed(5);
  const auto x = at::randn({2, 5, kWidth}).to(device).requires_grad_(true);
  const auto outs = linears(x, all.dense, TensorRanks());
  std::vector<at::Tensor> probes, results;
  for (const auto& out : outs) probes.push_back(at::randn(out.sizes()).to(device, dtype));
  torch::autograd::backward(outs, probes);
  for (const auto& out : outs) results.push_back(out.detach());
  results.push_back(x.grad());
  for (const auto& param : all.trained) results.push_back(param->grad());
  for (auto& result : results) result = result.cpu().to(at::kFloat);
  return results;
}

/// Products of matrices with a weight of one of these heights.
Counts products_with(const std::vector<int64_t>& heights) {
  return [heights](std::string_view name, const std::vector<at::Tensor>& inputs) {
    if (name != "aten::mm" && name != "aten::addmm") return false;
    return std::any_of(inputs.begin(), inputs.end(), [&](const at::Tensor& x) {
      return std::any_of(heights.begin(), heights.end(), [&](int64_t height) {
        return x.sizes() == at::IntArrayRef{height, kWidth} ||
               x.sizes() == at::IntArrayRef{kWidth, height};
      });
    });
  };
}

TEST_F(Adapters, LeaveTheProductsOfFrozenWeightsOne) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool biased : {false, true}) {
      for (const auto& adapted :
           {std::vector<bool>{false, false, false}, {true, false, true}, {true, true, true}}) {
        SCOPED_TRACE(testing::Message()
                     << c10::toString(dtype) << biased << adapted[0] << adapted[1]);
        const auto here = project(at::kCPU, dtype, biased, adapted);
        std::vector<at::Tensor> there;
        const auto run = [&] { there = project(gpu_, dtype, biased, adapted); };
        EXPECT_EQ(calls_of(products_with({kHeight}), run), 2) << "forward, the input's gradient";
        EXPECT_EQ(calls_of(products_with(kHeights), run), 0) << "by one weight";
        ASSERT_EQ(there.size(), here.size());
        const double tolerance = dtype == at::kFloat ? 1e-5 : 2e-2;
        for (size_t i = 0; i < here.size(); ++i) {
          const auto off = (there[i] - here[i]).abs().max().item<double>();
          EXPECT_LE(off, tolerance * (1 + here[i].abs().max().item<double>())) << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace convoy::nn
