#include "convoy/planner/cost/skipped_products.h"

#include <ATen/ATen.h>
#include <ATen/ExpandUtils.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include "convoy/nn/shapes_only.h"

// Two dispatch keys that neither tensors nor torch itself use. While a thread includes one, torch
// dispatches to the kernels that are registered for it here. The first key comes before all others;
// the second comes after autograd, which has recorded the operation by then.
namespace convoy::planner {

namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr auto kBehindAutograd = c10::DispatchKey::Fake;
using Number = const at::Scalar&;
using In = const at::Tensor&;
using Out = at::Tensor&;

template <typename... Tensors>
bool is_known_to_autograd(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && (tensors.requires_grad() || ...);
}

/// Shape of the product [.., n, k] x [.., k, m].
std::vector<int64_t> shape_of(In a, In b) {
  auto shape = a.sizes().vec();
  shape.back() = b.size(-1);
  return shape;
}
at::Tensor zeros_of(In a, In b) {
  return at::zeros(shape_of(a, b), a.options());
}
Out zeros_into(Out out, In a, In b) {
  return out.resize_(shape_of(a, b)).zero_();
}

/// Kernel of mm and bmm, which calls torch's where the product may not be skipped.
template <at::Tensor (*kTorchs)(In, In)>
at::Tensor product(In a, In b) {
  if (!is_known_to_autograd(a, b)) return zeros_of(a, b);
  const c10::impl::ExcludeDispatchKeyGuard torchs(kKey);
  return kTorchs(a, b);
}
Out product_out(In a, In b, Out out) {
  return zeros_into(out, a, b);
}
at::Tensor addmm(In added, In a, In b, Number beta, Number alpha) {
  if (!is_known_to_autograd(added, a, b)) return zeros_of(a, b);
  const c10::impl::ExcludeDispatchKeyGuard torchs(kKey);
  return at::addmm(added, a, b, beta, alpha);
}
Out addmm_out(In, In a, In b, Number, Number, Out out) {
  return zeros_into(out, a, b);
}
Out addmm_in_place(Out sum, In a, In b, Number beta, Number alpha) {
  if (!is_known_to_autograd(sum, a, b)) return sum;
  const c10::impl::ExcludeDispatchKeyGuard torchs(kKey);
  return sum.addmm_(a, b, beta, alpha);
}

/// Whether autograd has seen the operation that this thread is in.
bool is_behind_autograd() {
  return c10::impl::tls_is_dispatch_keyset_excluded(c10::autograd_dispatch_keyset);
}

/// Whether a product may be skipped: it is large enough to matter, and of floating point.
bool may_leave_out(In out) {
  constexpr int64_t kMany = 1 << 16;
  return nn::shapes_only() && out.numel() >= kMany && out.is_floating_point() &&
         out.scalar_type() != at::kDouble;
}
/// Kernel of an operation that writes into its first tensor; calls torch's where it may not be
/// skipped.
template <class Torchs, typename... Tensors>
Out in_place(Out out, const Torchs& torchs, const Tensors&... others) {
  const bool is_seen = is_behind_autograd() || !is_known_to_autograd(out, others...);
  if (may_leave_out(out) && is_seen) return out;
  const c10::impl::ExcludeDispatchKeyGuard guard(kKey);
  torchs();
  return out;
}
Out zero(Out out) {
  return in_place(out, [&] { out.zero_(); });
}
Out fill(Out out, Number value) {
  return in_place(out, [&] { out.fill_(value); });
}
Out copy(Out out, In from, bool non_blocking) {
  return in_place(out, [&] { out.copy_(from, non_blocking); }, from);
}
Out add(Out out, In other, Number alpha) {
  return in_place(out, [&] { out.add_(other, alpha); }, other);
}
Out multiply(Out out, In other) {
  return in_place(out, [&] { out.mul_(other); }, other);
}

Out add_rows(Out out, int64_t dim, In index, In rows, Number alpha) {
  return in_place(out, [&] { out.index_add_(dim, index, rows, alpha); }, rows);
}
/// Kernel of a table lookup, for one of the two keys.
template <c10::DispatchKey kOf>
at::Tensor rows_of(In table, int64_t dim, In index) {
  const bool is_seen =
      kOf == kBehindAutograd || is_behind_autograd() || !is_known_to_autograd(table);
  if (dim == 0 && index.dim() == 1 && is_seen && may_leave_out(table)) {
    auto shape = table.sizes().vec();
    shape[0] = index.numel();
    return at::empty(shape, table.options());
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kOf);
  return at::index_select(table, dim, index);
}
at::Tensor masked_fill(In from, In mask, Number value) {
  const bool keeps_shape = at::infer_size(from.sizes(), mask.sizes()) == from.sizes();
  if (may_leave_out(from) && keeps_shape && !is_known_to_autograd(from))
    return at::empty_like(from);
  const c10::impl::ExcludeDispatchKeyGuard guard(kKey);
  return from.masked_fill(mask, value);
}

at::Tensor sum(In a, In b, Number alpha) {
  if (a.sizes() == b.sizes() && may_leave_out(a) && may_leave_out(b)) {
    const auto type = at::result_type(a, b);
    const auto cast = [type](In from) {  // torch's kernel makes a copy
      return from.scalar_type() == type ? at::Tensor() : at::empty_like(from, type);
    };
    const auto first = cast(a), second = cast(b);
    return at::empty_like(a, type);
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kBehindAutograd);
  return at::add(a, b, alpha);
}

/// Kernel of cat for pieces of one dtype.
at::Tensor joined(const at::ITensorListRef& pieces, int64_t dim) {
  const auto tensors = pieces.materialize();
  const at::Tensor& first = tensors.front();
  const bool are_alike = std::all_of(tensors.begin(), tensors.end(), [&](In piece) {
    return piece.scalar_type() == first.scalar_type() && piece.dim() == first.dim() &&
           may_leave_out(piece);
  });
  if (are_alike) {
    auto shape = first.sizes().vec();
    auto& length = shape[static_cast<size_t>(dim < 0 ? dim + first.dim() : dim)];
    length = 0;
    for (In piece : tensors) length += piece.size(dim);
    return at::empty(shape, first.options());
  }
  const c10::impl::ExcludeDispatchKeyGuard guard(kBehindAutograd);
  return at::cat(pieces, dim);
}

/// Kernels of attention. Their results have the strides of torch's for processors: outputs those of
/// the queries, gradients position by position.
using Mask = const std::optional<at::Tensor>&;
std::tuple<at::Tensor, at::Tensor> attention(In q, In k, In v, double dropout, bool causal,
                                             Mask mask, std::optional<double> scale) {
  if (!nn::shapes_only() || is_known_to_autograd(q, k, v)) {
    const c10::impl::ExcludeDispatchKeyGuard guard(kKey);
    return at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, dropout, causal, mask, scale);
  }
  auto sums = at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(at::kFloat));
  return {at::empty_like(q), sums};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_backward(In grad, In q, In k, In v, In out,
                                                                  In sums, double dropout,
                                                                  bool causal, Mask mask,
                                                                  std::optional<double> scale) {
  const auto by_position = [](In of) {
    return at::empty({of.size(0), of.size(2), of.size(1), of.size(3)}, of.options())
        .transpose(1, 2);
  };
  if (nn::shapes_only()) return {by_position(q), by_position(k), by_position(v)};
  const c10::impl::ExcludeDispatchKeyGuard guard(kKey);
  return at::_scaled_dot_product_flash_attention_for_cpu_backward(grad, q, k, v, out, sums, dropout,
                                                                  causal, mask, scale);
}

}  // namespace

SkippedProducts::SkippedProducts() : guard_(c10::DispatchKeySet({kKey, kBehindAutograd})) {}

bool asked_again() {
  return c10::impl::tls_is_dispatch_key_excluded(kKey);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, m) {
  m.impl("mm", product<at::mm>);
  m.impl("mm.out", product_out);
  m.impl("bmm", product<at::bmm>);
  m.impl("bmm.out", product_out);
  m.impl("addmm", addmm);
  m.impl("addmm.out", addmm_out);
  m.impl("addmm_", addmm_in_place);
  m.impl("zero_", zero);
  m.impl("fill_.Scalar", fill);
  m.impl("copy_", copy);
  m.impl("add_.Tensor", add);
  m.impl("mul_.Tensor", multiply);
  m.impl("index_add_", add_rows);
  m.impl("index_select", rows_of<kKey>);
  m.impl("masked_fill.Scalar", masked_fill);
  m.impl("_scaled_dot_product_flash_attention_for_cpu", attention);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", attention_backward);
}

TORCH_LIBRARY_IMPL(_, Fake, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Fake, m) {
  m.impl("add.Tensor", sum);
  m.impl("cat", joined);
  m.impl("index_select", rows_of<kBehindAutograd>);
}

}  // namespace convoy::planner
