// What a GPU computes by kernels and products of its own, beside the host.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include "convoy/gpu/failures.h"
#include "convoy/nn/attention/rotary.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"
#include "tests/gpu/gpu_testing.h"

namespace convoy::nn {
namespace {

using Kernels = Gpu;

void expect_near(const at::Tensor& on_gpu, const at::Tensor& on_host, double tolerance) {
  ASSERT_EQ(on_gpu.sizes(), on_host.sizes());
  EXPECT_EQ(on_gpu.scalar_type(), on_host.scalar_type());
  const auto off = (on_gpu.cpu().to(at::kDouble) - on_host.to(at::kDouble)).abs().max();
  EXPECT_LE(off.item<double>(), tolerance * (1 + on_host.abs().max().item<double>()));
}

double tolerance_of(at::ScalarType dtype) {
  return dtype == at::kFloat ? 1e-5 : dtype == at::kHalf ? 4e-3 : 2e-2;
}

/// Parameters whose memory and gradients lie side by side in one.
std::vector<ParamPtr> params_of(const std::vector<at::Tensor>& values, at::Device device,
                                at::ScalarType dtype) {
  const auto flat = at::cat(values).to(device, dtype);
  const auto grads = at::full_like(flat, 77, flat.options().dtype(at::kFloat));
  std::vector<ParamPtr> out;
  int64_t begin = 0;
  for (const auto& value : values) {
    out.push_back(std::make_shared<Param>(ParamSpec{"p", value.sizes().vec(), Init::zeros()}));
    out.back()->bind_value(flat.narrow(0, begin, value.size(0)));
    out.back()->bind_grad(grads.narrow(0, begin, value.size(0)));
    begin += value.size(0);
  }
  return out;
}

TEST_F(Kernels, Activations) {
  for (const auto& kind : activations()) {
    for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
      for (const bool gated : {false, true}) {
        SCOPED_TRACE(kind + c10::toString(dtype) + (gated ? " gated" : ""));
        // Halves of the columns, as one product leaves them.
        const auto both = (at::randn({5, 7, 16}) * 3).to(dtype), probe = at::randn({5, 7, 8});
        std::vector<at::Tensor> outs, grads;
        for (const auto device : {gpu_, at::Device(at::kCPU)}) {
          const auto on = both.to(device).requires_grad_(true);
          const auto parts = on.split(8, -1);
          const auto out = activate(kind, parts[0], gated ? parts[1] : at::Tensor());
          torch::autograd::backward({out}, {probe.to(device, dtype)});
          outs.push_back(out.detach());
          grads.push_back(on.grad());
        }
        expect_near(outs[0], outs[1], tolerance_of(dtype));
        expect_near(grads[0], grads[1], tolerance_of(dtype));
      }
    }
  }
}

TEST_F(Kernels, Rotation) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const int64_t E : {8, 20, 6}) {
      for (const bool apart : {false, true}) {
        SCOPED_TRACE(c10::toString(dtype) + std::to_string(E) + (apart ? " apart" : ""));
        const auto positions = at::arange(15).view({3, 5}) * 7;
        auto tables =
            apart ? rotary_tables({}, positions, 105, E) : rotary_tables({}, 5, E, at::kCPU);
        if (apart) tables = {tables.cos.unsqueeze(1), tables.sin.unsqueeze(1)};
        const auto x = at::randn({3, 5, 6 * E}).to(dtype), probe = at::randn({3, 4, 5, E});
        std::vector<at::Tensor> outs, grads;
        for (const auto device : {gpu_, at::Device(at::kCPU)}) {
          const auto on = x.to(device).requires_grad_(true);
          const auto heads = on.view({3, 5, 6, E}).transpose(1, 2).split_with_sizes({3, 1, 2}, 1);
          const auto turned =
              rotate_all({heads[0], heads[1]}, tables.cos.to(device), tables.sin.to(device));
          const auto out = at::cat(turned, 1);
          torch::autograd::backward({out}, {probe.to(device, dtype)});
          outs.push_back(out.detach());
          grads.push_back(on.grad());
        }
        expect_near(outs[0], outs[1], tolerance_of(dtype));
        expect_near(grads[0], grads[1], tolerance_of(dtype));
      }
    }
  }
}

TEST_F(Kernels, ProductsOfOneInput) {
  for (const auto dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool biased : {false, true}) {
      for (const bool twice : {false, true}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + (biased ? " biased" : "") +
                     (twice ? " twice" : ""));
        const std::vector<at::Tensor> weights{at::randn({6, 4}), at::randn({3, 4}),
                                              at::randn({3, 4})};
        const std::vector<at::Tensor> biases{at::randn({6}), at::randn({3}), at::randn({3})};
        const auto x = at::randn({2, 5, 4}), probe = at::randn({2, 5, 12});
        std::vector<std::vector<at::Tensor>> results;
        for (const auto device : {gpu_, at::Device(at::kCPU)}) {
          const auto w = params_of(weights, device, dtype), b = params_of(biases, device, dtype);
          std::vector<DenseParams> dense;
          for (size_t i = 0; i < w.size(); ++i) dense.push_back({w[i], biased ? b[i] : nullptr});
          const auto on = x.to(device).requires_grad_(true);
          std::vector<at::Tensor> result;
          for (int time = 0; time < (twice ? 2 : 1); ++time) {
            const auto out = at::cat(linears(on, dense, TensorRanks()), -1);
            torch::autograd::backward({out}, {probe.to(device, dtype)});
            result.push_back(out.detach());
          }
          result.push_back(on.grad());
          for (const auto& param : w) result.push_back(param->grad());
          for (const auto& param : b) {
            if (biased) result.push_back(param->grad());
          }
          results.push_back(result);
        }
        for (size_t i = 0; i < results[0].size(); ++i) {
          expect_near(results[0][i], results[1][i], tolerance_of(dtype));
        }
      }
    }
  }
}

TEST_F(Kernels, Normalisations) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const auto reader : {ReadBy::Anything, ReadBy::Products}) {
      for (const bool rms : {false, true}) {
        const auto x = at::randn({4, 6, 16}) * 3, probe = at::randn({4, 6, 16});
        const auto weights = at::randn({2, 16});
        std::vector<std::vector<at::Tensor>> results;
        for (const auto device : {gpu_, at::Device(at::kCPU)}) {
          const auto on = x.to(device).requires_grad_(true);
          const auto w = params_of({weights[0]}, device, dtype)[0];
          const auto b = params_of({weights[1]}, device, dtype)[0];
          const auto out = rms ? rms_norm(on, w, 1e-5, reader) : layer_norm(on, w, b, 1e-5, reader);
          const bool narrow =
              device.is_cuda() && dtype == at::kBFloat16 && reader == ReadBy::Products;
          EXPECT_EQ(out.scalar_type(), narrow ? at::kBFloat16 : at::kFloat);
          torch::autograd::backward({out}, {probe.to(device, out.scalar_type())});
          results.push_back({out.detach().to(at::kFloat), on.grad(), w->grad()});
        }
        for (size_t i = 0; i < results[0].size(); ++i) {
          expect_near(results[0][i], results[1][i], 2 * tolerance_of(dtype));
        }
      }
    }
  }
}

TEST_F(Kernels, Losses) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const double temperature : {1.0, 0.5}) {
      for (const std::string kind : {"plain", "biased", "weighted"}) {
        SCOPED_TRACE(std::string(c10::toString(dtype)) + std::to_string(temperature) + kind);
        const bool biased = kind == "biased";
        const auto weights = at::rand({40}) - 0.3;
        // Some targets are sure, and some out of the question.
        auto h = at::randn({40, 8}), items = at::randn({101, 8}), bias = at::randn({101});
        const auto targets = at::arange(40) * 2 + 1;
        h.narrow(0, 0, 10).copy_(items.index_select(0, targets.narrow(0, 0, 10)) * 4);
        h.narrow(0, 10, 10).copy_(items.index_select(0, targets.narrow(0, 10, 10)) * -2);
        std::vector<std::vector<at::Tensor>> results;
        for (const auto device : {gpu_, at::Device(at::kCPU)}) {
          const auto on = h.to(device).requires_grad_(true);
          const auto table = params_of({items}, device, dtype)[0];
          CrossEntropyOptions options{.temperature = temperature};
          if (biased) options.bias = params_of({bias}, device, dtype)[0];
          if (kind == "weighted") options.weights = weights.to(device);
          const auto out = cross_entropy(on, table, targets.to(device), options);
          torch::autograd::backward({out.loss}, {});
          results.push_back({out.loss.detach(), on.grad(), table->grad()});
          if (biased) results.back().push_back(options.bias->grad());
          at::NoGradGuard no_grad;
          options.count_correct = true;
          const auto evaluated = cross_entropy(on, table, targets.to(device), options);
          results.back().push_back(evaluated.loss);
          results.back().push_back(evaluated.correct);
        }
        for (size_t i = 0; i < results[0].size(); ++i) {
          expect_near(results[0][i], results[1][i], dtype == at::kBFloat16 ? 2e-2 : 1e-5);
        }
      }
    }
  }
}

TEST_F(Kernels, AreCompiled) {
  const auto x = at::randn({1, 1, 2, 8}, gpu_);
  const auto tables = rotary_tables({}, 2, 8, gpu_);
  for (const auto& numbers : {x, x.to(at::kBFloat16)}) {
    const auto on = numbers.clone().requires_grad_(true);
    const auto turned = rotate(on, tables.cos, tables.sin);
    const auto out = activate("gelu", turned) + activate("silu", turned, on);
    torch::autograd::backward({out.sum()}, {});
  }
  EXPECT_TRUE(gpu::failed_kernels().empty()) << gpu::failed_kernels().front();
}

}  // namespace
}  // namespace convoy::nn
