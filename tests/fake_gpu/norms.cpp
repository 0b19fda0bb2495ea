// Normalisations: torch's kernels for GPUs sum in 32 bits and round what they write.
#include <ATen/ATen.h>
#include <torch/library.h>

#include "tests/fake_gpu/run_on_host.h"

namespace convoy::fake_gpu {

namespace {

at::Tensor wide(const at::Tensor& x) {
  return x.defined() ? x.to(at::kFloat) : x;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm(const at::Tensor& x,
                                                          c10::IntArrayRef shape,
                                                          const std::optional<at::Tensor>& weight,
                                                          const std::optional<at::Tensor>& bias,
                                                          double epsilon) {
  auto out = run_on_host(
      "aten::native_layer_norm", {x, weight.value_or(at::Tensor()), bias.value_or(at::Tensor())},
      [&](const Tensors& in) {
        auto [normed, mean, scale] =
            at::native_layer_norm(wide(in[0]), shape, wide(in[1]), wide(in[2]), epsilon);
        return Tensors{normed.to(in[0].scalar_type()), mean, scale};
      });
  return {out[0], out[1], out[2]};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> layer_norm_backward(
    const at::Tensor& grad, const at::Tensor& x, c10::IntArrayRef shape, const at::Tensor& mean,
    const at::Tensor& scale, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, std::array<bool, 3> wanted) {
  auto out = run_on_host(
      "aten::native_layer_norm_backward",
      {grad, x, mean, scale, weight.value_or(at::Tensor()), bias.value_or(at::Tensor())},
      [&](const Tensors& in) {
        auto [dx, dweight, dbias] = at::native_layer_norm_backward(
            wide(in[0]), wide(in[1]), shape, in[2], in[3], wide(in[4]), wide(in[5]), wanted);
        Tensors grads{dx, dweight, dbias};
        const Tensors like{in[1], in[4], in[5]};
        for (size_t i = 0; i < grads.size(); ++i) {
          if (grads[i].defined()) grads[i] = grads[i].to(like[i].scalar_type());
        }
        return grads;
      });
  return {out[0], out[1], out[2]};
}

std::tuple<at::Tensor, at::Tensor> rms_norm(const at::Tensor& x, c10::IntArrayRef shape,
                                            const std::optional<at::Tensor>& weight,
                                            std::optional<double> epsilon) {
  auto out = run_on_host(
      "aten::_fused_rms_norm", {x, weight.value_or(at::Tensor())}, [&](const Tensors& in) {
        const auto wide = in[0].to(at::kFloat);
        std::vector<int64_t> dims;
        for (size_t d = 0; d < shape.size(); ++d) dims.push_back(-1 - static_cast<int64_t>(d));
        const double least = epsilon.value_or(std::numeric_limits<float>::epsilon());
        const auto scale = (wide.square().mean(dims, true) + least).rsqrt();
        auto normed = wide * scale;
        if (in[1].defined()) normed = normed * in[1].to(at::kFloat);
        return Tensors{normed.to(in[0].scalar_type()), scale};
      });
  return {out[0], out[1]};
}

std::tuple<at::Tensor, at::Tensor> rms_norm_backward(const at::Tensor& grad, const at::Tensor& x,
                                                     c10::IntArrayRef shape,
                                                     const at::Tensor& scale,
                                                     const std::optional<at::Tensor>& weight,
                                                     std::array<bool, 2> wanted) {
  auto out = run_on_host(
      "aten::_fused_rms_norm_backward", {grad, x, scale, weight.value_or(at::Tensor())},
      [&](const Tensors& in) {
        std::vector<int64_t> dims;
        for (size_t d = 0; d < shape.size(); ++d) dims.push_back(-1 - static_cast<int64_t>(d));
        const auto slope = in[0].to(at::kFloat), normed = in[1].to(at::kFloat) * in[2];
        const auto through = in[3].defined() ? slope * in[3].to(at::kFloat) : slope;
        Tensors grads(2);
        if (wanted[0]) {
          grads[0] = ((through - normed * (through * normed).mean(dims, true)) * in[2])
                         .to(in[1].scalar_type());
        }
        if (wanted[1] && in[3].defined()) {
          grads[1] = (slope * normed).sum_to_size(in[3].sizes()).to(in[3].scalar_type());
        }
        return grads;
      });
  return {out[0], out[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("native_layer_norm", layer_norm);
  m.impl("native_layer_norm_backward", layer_norm_backward);
  m.impl("_fused_rms_norm", rms_norm);
  m.impl("_fused_rms_norm_backward", rms_norm_backward);
}

}  // namespace convoy::fake_gpu
