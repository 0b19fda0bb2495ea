// Fused attention: torch's choice between its kernels on a GPU of compute capability 9.0, and the
// processor's in their place.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include "tests/fake_gpu/attention.h"

namespace convoy::fake_gpu {

namespace {

/// The processor's kernel takes a group of queries for each key by repeated keys.
at::Tensor repeated(const at::Tensor& keys, const at::Tensor& queries) {
  const int64_t times = queries.size(1) / keys.size(1);
  return times == 1 ? keys : keys.repeat_interleave(times, 1);
}

at::Tensor summed(const at::Tensor& grad, const at::Tensor& keys) {
  const int64_t times = grad.size(1) / keys.size(1);
  if (times == 1) return grad;
  return grad.view({grad.size(0), keys.size(1), times, grad.size(2), grad.size(3)}).sum(2);
}

}  // namespace

Tensors attend_on_host(const Tensors& in, bool causal, std::optional<double> scale) {
  const std::optional<at::Tensor> mask = in[3].defined() ? std::optional(in[3]) : std::nullopt;
  auto [out, sums] = at::_scaled_dot_product_flash_attention_for_cpu(
      in[0], repeated(in[1], in[0]), repeated(in[2], in[0]), 0.0, causal, mask, scale);
  return {out, sums};
}

Tensors attend_on_host_backward(const Tensors& in, bool causal, std::optional<double> scale) {
  const std::optional<at::Tensor> mask = in[6].defined() ? std::optional(in[6]) : std::nullopt;
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      in[0], in[1], repeated(in[2], in[1]), repeated(in[3], in[1]), in[4], in[5], 0.0, causal, mask,
      scale);
  return {query, summed(key, in[2]), summed(value, in[3])};
}

namespace {

// sdp::SDPBackend
constexpr int64_t kMath = 0, kFlash = 1, kEfficient = 2;

struct Query {
  const at::Tensor &query, &key, &value;
  const std::optional<at::Tensor>& mask;
  bool causal, groups;
};

/// What both kernels want, see aten/src/ATen/native/transformers/sdp_utils_cpp.h.
bool fits_fused(const Query& q) {
  for (const auto* tensor : {&q.query, &q.key, &q.value}) {
    if (tensor->dim() != 4 || tensor->is_nested() || tensor->size(2) == 0) return false;
    if (tensor->stride(-1) != 1 && tensor->size(-1) != 1) return false;
    if (tensor->scalar_type() != q.query.scalar_type()) return false;
  }
  const bool same_batch = q.query.size(0) == q.key.size(0) && q.key.size(0) == q.value.size(0);
  return same_batch && q.key.size(1) == q.value.size(1) && q.key.size(2) == q.value.size(2);
}

bool same_heads(const Query& q) {
  return q.query.size(1) == q.key.size(1);
}

bool fits_flash(const Query& q) {
  const auto type = q.query.scalar_type();
  const int64_t width = q.query.size(3);
  if (q.mask || (type != at::kHalf && type != at::kBFloat16)) return false;
  if (width > 256 || q.key.size(3) != width || q.value.size(3) != width) return false;
  if (q.causal && q.query.size(2) > q.key.size(2)) return false;
  return same_heads(q) || (q.groups && q.query.size(1) % q.key.size(1) == 0);
}

bool fits_efficient(const Query& q) {
  const auto type = q.query.scalar_type();
  const bool half = type == at::kHalf || type == at::kBFloat16;
  if (!half && type != at::kFloat) return false;
  const int64_t alignment = half ? 8 : 4;
  for (const int64_t width : {q.query.size(3), q.key.size(3), q.value.size(3)}) {
    if (width == 0 || width % alignment != 0) return false;
  }
  if (q.causal && q.mask) return false;
  return same_heads(q) && q.query.size(3) == q.key.size(3);
}

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double, bool causal, std::optional<double>,
               bool groups) {
  const auto& context = at::globalContext();
  const Query q{query, key, value, mask, causal, groups};
  const bool fused = fits_fused(q);
  if (fused && context.userEnabledFlashSDP() && fits_flash(q)) return kFlash;
  if (fused && context.userEnabledMemEfficientSDP() && fits_efficient(q)) return kEfficient;
  TORCH_CHECK(context.userEnabledMathSDP(),
              "No viable backend for scaled_dot_product_attention was found.");
  return kMath;
}

at::Tensor number() {
  return at::empty({}, at::dtype(at::kLong));
}

void without_dropout(double rate) {
  TORCH_CHECK(rate == 0, "fake_gpu: the fused attention has no dropout here");
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt, c10::SymInt, at::Tensor,
           at::Tensor, at::Tensor>
flash(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, double rate,
      bool causal, bool, std::optional<double> scale) {
  without_dropout(rate);
  auto out = run_on_host("aten::_scaled_dot_product_flash_attention", {query, key, value, {}},
                         [&](const Tensors& in) { return attend_on_host(in, causal, scale); });
  return {out[0],      out[1],   at::Tensor(), at::Tensor(), query.size(2),
          key.size(2), number(), number(),     at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> flash_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& sums, const at::Tensor&, const at::Tensor&,
    c10::SymInt, c10::SymInt, double, bool causal, const at::Tensor&, const at::Tensor&,
    std::optional<double> scale) {
  auto grads = run_on_host("aten::_scaled_dot_product_flash_attention_backward",
                           {grad, query, key, value, out, sums, {}}, [&](const Tensors& in) {
                             return attend_on_host_backward(in, causal, scale);
                           });
  return {grads[0], grads[1], grads[2]};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& bias, bool, double rate, bool causal,
    std::optional<double> scale) {
  without_dropout(rate);
  auto out = run_on_host("aten::_scaled_dot_product_efficient_attention",
                         {query, key, value, bias.value_or(at::Tensor())},
                         [&](const Tensors& in) { return attend_on_host(in, causal, scale); });
  return {out[0], out[1], number(), number()};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> efficient_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& bias, const at::Tensor& out, const at::Tensor& sums, const at::Tensor&,
    const at::Tensor&, double, std::array<bool, 4> wanted, bool causal,
    std::optional<double> scale) {
  TORCH_CHECK(!wanted[3] || !bias.defined(), "fake_gpu: no gradient of an attention's bias");
  if (!grad.defined()) return {};
  auto grads = run_on_host("aten::_scaled_dot_product_efficient_attention_backward",
                           {grad, query, key, value, out, sums, bias}, [&](const Tensors& in) {
                             return attend_on_host_backward(in, causal, scale);
                           });
  return {grads[0], grads[1], grads[2], at::Tensor()};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, CUDA, m) {
  m.impl("_fused_sdp_choice", choose);
  m.impl("_scaled_dot_product_flash_attention", flash);
  m.impl("_scaled_dot_product_flash_attention_backward", flash_backward);
  m.impl("_scaled_dot_product_efficient_attention", efficient);
  m.impl("_scaled_dot_product_efficient_attention_backward", efficient_backward);
}

}  // namespace convoy::fake_gpu

namespace at::native {
REGISTER_CUDA_DISPATCH(_fused_sdp_choice_stub, &convoy::fake_gpu::choose)
}  // namespace at::native
