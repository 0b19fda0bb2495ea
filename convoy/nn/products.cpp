#include "convoy/nn/products.h"

#include <ATen/Functions.h>

#include <cstdint>

// Of MKL, in the torch wheel.
extern "C" [[gnu::weak]] void cblas_gemm_bf16bf16f32(int layout, int transpose_a, int transpose_b,
                                                     int m, int n, int k, float alpha,
                                                     const uint16_t* a, int row_of_a,
                                                     const uint16_t* b, int row_of_b, float beta,
                                                     float* c, int row_of_c);

namespace convoy::nn {

namespace {

constexpr int kRowMajor = 101, kNotTransposed = 111, kTransposed = 112;

bool has_bf16_sums() {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
  static const bool answer =
      cblas_gemm_bf16bf16f32 != nullptr && __builtin_cpu_supports("amx-bf16");
  return answer;
#else
  return false;
#endif
}

}  // namespace

at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& matrix,
                             const at::Tensor& bias) {
  constexpr int64_t kLeast = 4, kMost = 16, kLarge = int64_t{1} << 18;
  const bool turns = x.is_cpu() && x.scalar_type() == at::kFloat && x.size(0) >= kLeast &&
                     x.size(0) <= kMost && matrix.numel() >= kLarge;
  if (!turns) return bias.defined() ? at::addmm(bias, x, matrix.t()) : at::mm(x, matrix.t());
  const auto out = at::mm(matrix, x.t()).t();
  return (bias.defined() ? out + bias : out).contiguous();
}

at::ScalarType product_dtype(const at::Tensor& rows) {
  const bool sums = rows.is_cpu() && rows.scalar_type() == at::kBFloat16 && has_bf16_sums();
  return sums ? at::kFloat : rows.scalar_type();
}

void transposed_product(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, bool add) {
  at::NoGradGuard no_grad;
  if (out.scalar_type() == a.scalar_type()) {
    if (add) {
      out.addmm_(a.t(), b);
    } else {
      at::mm_out(out, a.t(), b);
    }
    return;
  }
  const auto left = a.contiguous(), right = b.contiguous();
  auto bits = [](const at::Tensor& x) {
    return reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>());
  };
  auto size = [](const at::Tensor& x, int dim) { return static_cast<int>(x.size(dim)); };
  const int m = size(left, 1), n = size(right, 1);
  cblas_gemm_bf16bf16f32(kRowMajor, kTransposed, kNotTransposed, m, n, size(left, 0), 1.0F,
                         bits(left), m, bits(right), n, add ? 1.0F : 0.0F, out.data_ptr<float>(),
                         n);
}

}  // namespace convoy::nn
