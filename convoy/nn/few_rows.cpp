#include "convoy/nn/few_rows.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace convoy::nn {

namespace {

constexpr int64_t kMost = 16;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

constexpr int64_t kLanes = 16;
constexpr int kRows = 8;          // of x at a time: their sums of two results are 16 registers
constexpr int64_t kAhead = 1536;  // elements: some pages of a matrix that comes from memory
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));

struct Product {
  const float *x, *matrix, *bias;  // bias may be null
  float* out;
  int64_t m, n, k;
};

[[gnu::always_inline]] inline void load(const float* values, Floats& to) {
  std::memcpy(&to, values, sizeof(to));
}

[[gnu::always_inline]] inline float sum(const Floats& values) {
  using Half = float __attribute__((vector_size(kLanes * sizeof(float) / 2)));
  using Quarter = float __attribute__((vector_size(kLanes * sizeof(float) / 4)));
  std::array<Half, 2> halves;
  std::memcpy(halves.data(), &values, sizeof(values));
  const Half half = halves[0] + halves[1];
  std::array<Quarter, 2> quarters;
  std::memcpy(quarters.data(), &half, sizeof(half));
  const Quarter quarter = quarters[0] + quarters[1];
  return (quarter[0] + quarter[2]) + (quarter[1] + quarter[3]);
}

/// `kM` rows of x from `row` on, with `kN` rows of the matrix from `column` on.
template <int kM, int kN>
[[gnu::always_inline]] inline void block(const Product& p, int64_t row, int64_t column) {
  const float *x = p.x + row * p.k, *matrix = p.matrix + column * p.k;
  Floats sums[kN][kM] = {};
  for (int64_t i = 0; i < p.k; i += kLanes) {
    Floats terms[kN];
#pragma GCC unroll 8
    for (int j = 0; j < kN; ++j) {
      load(matrix + j * p.k + i, terms[j]);
      __builtin_prefetch(matrix + j * p.k + i + kAhead);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
      Floats factors;
      load(x + r * p.k + i, factors);
#pragma GCC unroll 8
      for (int j = 0; j < kN; ++j) sums[j][r] += terms[j] * factors;
    }
  }
#pragma GCC unroll 8
  for (int j = 0; j < kN; ++j) {
    const float bias = p.bias ? p.bias[column + j] : 0;
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) p.out[(row + r) * p.n + column + j] = sum(sums[j][r]) + bias;
  }
}

template <int kN>
[[gnu::always_inline]] inline void columns(const Product& p, int64_t column) {
  for (int64_t row = 0; row < p.m; row += kRows) {
    switch (std::min<int64_t>(p.m - row, kRows)) {
      case 1:
        block<1, kN>(p, row, column);
        break;
      case 2:
        block<2, kN>(p, row, column);
        break;
      case 3:
        block<3, kN>(p, row, column);
        break;
      case 4:
        block<4, kN>(p, row, column);
        break;
      case 5:
        block<5, kN>(p, row, column);
        break;
      case 6:
        block<6, kN>(p, row, column);
        break;
      case 7:
        block<7, kN>(p, row, column);
        break;
      default:
        block<8, kN>(p, row, column);
    }
  }
}

__attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))) void multiply(const Product& p,
                                                                                int64_t begin,
                                                                                int64_t end) {
  for (; begin + 2 <= end; begin += 2) columns<2>(p, begin);
  if (begin < end) columns<1>(p, begin);
}

/// The matrix once from memory and all rows with it. False where this processor or the shapes do
/// not fit.
bool multiply_once(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias,
                   at::Tensor& out) {
  static const bool has_registers = __builtin_cpu_supports("x86-64-v4");
  if (!has_registers || x.size(1) % kLanes != 0 || !matrix.is_contiguous()) return false;
  const auto rows = x.contiguous();
  const auto addend = bias.defined() ? bias.contiguous() : bias;
  out = at::empty({x.size(0), matrix.size(0)}, x.options());
  const Product product{rows.const_data_ptr<float>(),
                        matrix.const_data_ptr<float>(),
                        bias.defined() ? addend.const_data_ptr<float>() : nullptr,
                        out.mutable_data_ptr<float>(),
                        x.size(0),
                        matrix.size(0),
                        x.size(1)};
  at::parallel_for(0, product.n, 128,
                   [&](int64_t begin, int64_t end) { multiply(product, begin, end); });
  return true;
}

#else

bool multiply_once(const at::Tensor&, const at::Tensor&, const at::Tensor&, at::Tensor&) {
  return false;
}

#endif

}  // namespace

at::Tensor product_with_rows(const at::Tensor& x, const at::Tensor& matrix,
                             const at::Tensor& bias) {
  constexpr int64_t kLarge = int64_t{1} << 18;
  if (x.is_cpu() && x.scalar_type() == at::kFloat && x.size(0) <= kMost &&
      matrix.numel() >= kLarge) {
    at::Tensor out;
    if (multiply_once(x, matrix, bias, out)) return out;
    if (x.size(0) >= 4) {  // MKL computes the transpose in half the time
      out = at::mm(matrix, x.t()).t();
      return (bias.defined() ? out + bias : out).contiguous();
    }
  }
  return bias.defined() ? at::addmm(bias, x, matrix.t()) : at::mm(x, matrix.t());
}

}  // namespace convoy::nn
