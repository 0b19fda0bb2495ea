#include "convoy/profile/skipped_products.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/library.h>

#include <vector>

// Torch asks the kernels of a key before all others while a thread includes it. This one no tensor
// has, and nothing of torch itself.
namespace convoy::profile {

namespace {

constexpr auto kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
using Number = const at::Scalar&;
using In = const at::Tensor&;
using Out = at::Tensor&;

template <typename... Tensors>
bool is_known_to_autograd(const Tensors&... tensors) {
  return at::GradMode::is_enabled() && (tensors.requires_grad() || ...);
}

/// Of [.., n, k] x [.., k, m].
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

/// mm and bmm, by torch where it has to be.
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

}  // namespace

SkippedProducts::SkippedProducts() : guard_(kKey) {}

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
}

}  // namespace convoy::profile
