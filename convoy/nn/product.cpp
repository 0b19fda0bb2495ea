#include "convoy/nn/product.h"

#include <ATen/ATen.h>

#include <atomic>

#include "convoy/gpu/failures.h"

namespace convoy::nn {

namespace {

/// Adds the product a b to `out` in one call; false where torch cannot do that: older versions need
/// `out` in 16 bits, too.
bool add_in_one(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
  static std::atomic<bool> known_not_to{false};
  if (known_not_to) return false;
  try {
    at::addmm_out(out, out, a, b, at::kFloat);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    gpu::check_device(out.device());
    known_not_to = true;
    gpu::add_failed_kernel("add_in_one", error);
    return false;
  }
}

}  // namespace

at::ScalarType product_dtype(const at::Tensor& x) {
  const auto dtype = x.scalar_type();
  return x.is_cuda() && dtype == at::kBFloat16 ? at::kFloat : dtype;
}

void product_into(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool adds) {
  const bool same = out.scalar_type() == a.scalar_type();
  if (adds && !same && add_in_one(out, a, b)) return;
  if (adds) {
    auto product = at::empty(out.sizes(), out.options());
    product_into(product, a, b);
    out.add_(product);
  } else if (same) {
    at::mm_out(out, a, b);
  } else {
    at::mm_out(out, a, b, at::kFloat);
  }
}

void sum_rows_into(at::Tensor& out, const at::Tensor& rows, bool adds) {
  if (adds) {
    out.add_(rows.sum(0, false, at::kFloat));
  } else {
    at::sum_out(out, rows, 0, false, at::kFloat);
  }
}

}  // namespace convoy::nn
