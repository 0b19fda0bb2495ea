#include "convoy/nn/layers/gated_kernel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <string>

#include "convoy/comm/to_host.h"
#include "convoy/gpu/agreement.h"
#include "convoy/gpu/kernel.h"
#include "convoy/nn/device_kernel.h"
#include "convoy/nn/layers/activation_text.h"

// Shapes: R rows of F numbers.
namespace convoy::nn {

namespace {

constexpr int64_t kAtOnce = 8;  // numbers of a thread

/// Operands, as the text has them.
struct GatedRows {
  const void *x, *times;
  long long x_stride, times_stride, eights, count, normal;
  float linear, cubic;
};

std::string text_of(at::ScalarType value) {
  const char* constants = value == at::kFloat
                              ? "#define CONVOY_VALUE float\n#define CONVOY_SHARE convoy_share\n"
                              : "#define CONVOY_VALUE unsigned short\n"
                                "#define CONVOY_SHARE convoy_fast_share\n";
  return fmt::format("{} {} {}\n{}", kFastMathText, kBitsText, kActivationText, constants) +
#include <convoy/nn/layers/gated_cu.h>
      ;
}

struct GatedKernels {
  explicit GatedKernels(at::ScalarType value)
      : forward("convoy_gated_rows", text_of(value)),
        backward("convoy_gated_rows_back", text_of(value)) {}

  gpu::Kernel forward, backward;
};

GatedKernels& kernels_of(at::ScalarType value) {
  static auto* wide = new GatedKernels(at::kFloat);
  static auto* narrow = new GatedKernels(at::kBFloat16);
  return value == at::kFloat ? *wide : *narrow;
}

/// Whether each load of eight numbers of [..., F] is of neighbours and aligned, and rows lie
/// evenly.
bool fits(const at::Tensor& t) {
  constexpr uintptr_t kAligned = 16;
  if (t.dim() == 0 || t.stride(-1) != 1 || t.size(-1) % kAtOnce != 0) return false;
  if (reinterpret_cast<uintptr_t>(t.const_data_ptr()) % kAligned != 0) return false;
  int64_t stride = t.dim() == 1 ? t.size(0) : t.stride(-2);
  if (stride % kAtOnce != 0) return false;
  for (int64_t dim = t.dim() - 2; dim >= 0; --dim) {
    if (t.size(dim) != 1 && t.stride(dim) != stride) return false;
    stride *= t.size(dim);
  }
  return true;
}

at::Tensor launch(GatedKernels& kernels, const Curve& curve, const at::Tensor& x,
                  const at::Tensor& times, const at::Tensor& grad) {
  constexpr int64_t kThreads = 256;
  const int64_t F = x.size(-1), count = x.numel() / kAtOnce;
  const auto stride = [&](const at::Tensor& t) { return t.dim() == 1 ? F : t.stride(-2); };
  const GatedRows rows{
      x.const_data_ptr(),   times.const_data_ptr(), stride(x),  stride(times), F / kAtOnce, count,
      curve.normal ? 1 : 0, curve.linear,           curve.cubic};
  auto sizes = x.sizes().vec();
  if (grad.defined()) sizes.insert(sizes.end() - 1, 2);
  auto out = at::empty(sizes, x.options());
  const gpu::Grid grid{static_cast<unsigned>(at::divup(count, kThreads)), kThreads};
  if (grad.defined()) {
    kernels.backward.launch(x.device(), grid, {.reads = {x, times, grad}, .writes = {out}}, rows,
                            grad.const_data_ptr(), out.mutable_data_ptr());
  } else {
    kernels.forward.launch(x.device(), grid, {.reads = {x, times}, .writes = {out}}, rows,
                           out.mutable_data_ptr());
  }
  return out;
}

/// Largest difference of the kernels' results for some rows from torch's, computed in fp64.
double difference(GatedKernels& kernels, at::Device device, at::ScalarType value) {
  constexpr int64_t kRows = 5, kWidth = 72;
  const auto index =
      at::arange(kRows * 3 * kWidth, at::TensorOptions(device).dtype(at::kDouble)) * 1.3;
  const auto waves = at::sin(index).view({kRows, 3, kWidth}).mul_(3);
  const auto all = waves.to(value);
  const auto x = all.select(1, 0), times = all.select(1, 1), grad = all.select(1, 2).contiguous();
  const auto out = launch(kernels, {}, x, times, {}), back = launch(kernels, {}, x, times, grad);
  const auto wide = [](const at::Tensor& t) { return t.to(at::kDouble); };
  const auto share = at::sigmoid(wide(x)), slope = share * (1 - share);
  const auto of_x = wide(grad) * wide(times) * (share + wide(x) * slope);
  const auto of_times = wide(grad) * wide(x) * share;
  return comm::item<double>(gpu::difference(
      {out, back}, {wide(x) * share * wide(times), at::stack({of_x, of_times}, 1)}));
}

}  // namespace

std::optional<at::Tensor> gated_by_kernel(const Curve& curve, const at::Tensor& x,
                                          const at::Tensor& times, const at::Tensor& grad) {
  const auto value = x.scalar_type();
  const bool takes = x.is_cuda() && (value == at::kFloat || value == at::kBFloat16) &&
                     x.numel() > 0 && times.sizes() == x.sizes() && times.scalar_type() == value &&
                     fits(x) && fits(times);
  if (!takes) return std::nullopt;
  auto& kernels = kernels_of(value);
  at::NoGradGuard no_grad;
  if (!kernels.backward.runs_on(x.device()) ||
      !kernels.forward.serves(x.device(), [&] { return difference(kernels, x.device(), value); })) {
    return std::nullopt;
  }
  at::Tensor whole;
  if (grad.defined()) {
    whole = grad.contiguous();
    if (whole.scalar_type() != value || !fits(whole)) return std::nullopt;
  }
  return launch(kernels, curve, x, times, whole);
}

}  // namespace convoy::nn
