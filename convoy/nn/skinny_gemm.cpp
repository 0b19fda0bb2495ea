#include "convoy/nn/skinny_gemm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstring>

#include "convoy/base/lanes.h"

namespace convoy::nn {

namespace {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;
using lanes::load;
using lanes::sum;

constexpr int kRowsAtOnce = 8;  // of x at a time: with two vectors of the matrix, 16 sums
constexpr int64_t kTerms = 8;   // rows of the matrix that are read side by side
constexpr int64_t kWide = 2 * kLanes;
constexpr int64_t kAhead = 1536;  // numbers of a column that are asked of memory before their use

template <class T>
struct Product {
  const float* x;
  const T* matrix;
  float* out;  // holds what is added to
  int64_t m, n, k;
};

/// Block of kN columns of a matrix that is stored by columns.
template <int kN>
struct Dots {
  template <int kM, class T>
  [[gnu::always_inline]] static void add(const Product<T>& p, int64_t row, int64_t column,
                                         int64_t) {
    const float* x = p.x + row * p.k;
    const T* matrix = p.matrix + column * p.k;
    float* out = p.out + row * p.n + column;
    Floats sums[kM][kN] = {};
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
        for (int j = 0; j < kN; ++j) sums[r][j] += terms[j] * factors;
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 8
      for (int j = 0; j < kN; ++j) out[r * p.n + j] += sum(sums[r][j]);
    }
  }
};

/// Block of kTerms terms of kWide columns of a matrix that is stored by rows.
struct Terms {
  template <int kM, class T>
  [[gnu::always_inline]] static void add(const Product<T>& p, int64_t row, int64_t column,
                                         int64_t first) {
    const float* x = p.x + row * p.k + first;
    const T* matrix = p.matrix + first * p.n + column;
    float* out = p.out + row * p.n + column;
    Floats sums[kM][2] = {};
    for (int64_t i = 0; i < kTerms; ++i) {
      Floats terms[2];
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        load(matrix + i * p.n + j * kLanes, terms[j]);
        __builtin_prefetch(matrix + (i + kTerms) * p.n + j * kLanes, 0, 2);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kM; ++r) {
        const Floats factors = Floats{} + x[r * p.k + i];
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j) sums[r][j] += terms[j] * factors;
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kM; ++r) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        Floats before;
        load(out + r * p.n + j * kLanes, before);
        before += sums[r][j];
        std::memcpy(out + r * p.n + j * kLanes, &before, sizeof(before));
      }
    }
  }
};

/// Computes the rows from `row` on of a block, at most kM.
template <class Block, int kM = kRowsAtOnce, class T>
[[gnu::always_inline]] inline void some_rows(const Product<T>& p, int64_t row, int64_t column,
                                             int64_t first) {
  if constexpr (kM > 1) {
    if (p.m - row < kM) return some_rows<Block, kM - 1>(p, row, column, first);
  }
  Block::template add<kM>(p, row, column, first);
}

template <class Block, class T>
[[gnu::always_inline]] inline void all_rows(const Product<T>& p, int64_t column, int64_t first) {
  for (int64_t row = 0; row < p.m; row += kRowsAtOnce) some_rows<Block>(p, row, column, first);
}

template <class T>
__attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))) void add_columns(
    const Product<T>& p, bool by_columns, int64_t begin, int64_t end) {
  if (by_columns) {
    for (; begin + 2 <= end; begin += 2) all_rows<Dots<2>>(p, begin, 0);
    if (begin < end) all_rows<Dots<1>>(p, begin, 0);
    return;
  }
  for (int64_t first = 0; first < p.k; first += kTerms) {
    for (int64_t column = begin; column < end; column += kWide) {
      all_rows<Terms>(p, column, first);
    }
  }
}

/// Whether add_columns() suits this processor, and m rows of k terms.
bool takes_rows(int64_t m, int64_t k) {
  constexpr int64_t kMost = 16;
  static const bool has_registers = __builtin_cpu_supports("x86-64-v4");
  return has_registers && m <= kMost && k % kLanes == 0;
}

/// Whether add_columns() suits the matrix, too.
bool fits(const at::Tensor& x, const at::Tensor& matrix) {
  constexpr int64_t kLarge = int64_t{1} << 18;
  const bool whole =
      matrix.t().is_contiguous() || (matrix.is_contiguous() && matrix.size(1) % kWide == 0);
  const auto type = matrix.scalar_type();
  return takes_rows(x.size(0), x.size(1)) && x.is_cpu() && x.scalar_type() == at::kFloat &&
         (type == at::kFloat || type == at::kBFloat16) && matrix.numel() >= kLarge && whole;
}

bool add_dots(const Product<float>& product) {
  if (!takes_rows(product.m, product.k)) return false;
  std::fill_n(product.out, product.m * product.n, 0.0F);
  add_columns(product, /*by_columns=*/true, 0, product.n);
  return true;
}

template <class T>
at::Tensor multiply_by(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  const auto rows = x.contiguous();
  const bool by_columns = matrix.t().is_contiguous();
  auto out = at::empty({x.size(0), matrix.size(1)}, x.options());
  bias.defined() ? out.copy_(bias.expand_as(out)) : out.zero_();
  const Product<T> product{rows.const_data_ptr<float>(),
                           static_cast<const T*>(matrix.const_data_ptr()),
                           out.mutable_data_ptr<float>(),
                           x.size(0),
                           matrix.size(1),
                           x.size(1)};
  const int64_t grain = 4;  // of kWide columns
  at::parallel_for(0, at::divup(product.n, kWide), grain, [&](int64_t begin, int64_t end) {
    add_columns(product, by_columns, begin * kWide, std::min(end * kWide, product.n));
  });
  return out;
}

at::Tensor multiply(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  return matrix.scalar_type() == at::kFloat ? multiply_by<float>(x, matrix, bias)
                                            : multiply_by<Bf16>(x, matrix, bias);
}

#else

struct DotProduct {
  const float *x, *rows;
  float* out;
  int64_t m, n, k;
};

bool add_dots(const DotProduct&) {
  return false;
}

bool fits(const at::Tensor&, const at::Tensor&) {
  return false;
}

at::Tensor multiply(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor&) {
  return at::mm(x, matrix);
}

#endif

/// Multiplies on a GPU with sums in fp32: x is split into 16-bit parts instead of widening the
/// matrix, which is read once.
at::Tensor multiply_parts(const at::Tensor& x, const at::Tensor& matrix) {
  const auto [parts, scale] = narrow_parts(x, matrix.scalar_type());
  const auto products = at::mm(parts, matrix, at::kFloat);
  const auto sums = products.view({-1, x.size(0), matrix.size(1)}).sum(0);
  return scale.defined() ? sums.mul(scale) : sums;
}

/// Product with a 16-bit matrix, which is widened to fp32 a few columns at a time.
at::Tensor multiply_narrow(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  if (matrix.is_cuda() && at::isReducedFloatingType(matrix.scalar_type()) &&
      x.scalar_type() == at::kFloat) {
    auto out = multiply_parts(x, matrix);
    return bias.defined() ? out.add_(bias) : out;
  }
  constexpr int64_t kNumbers = 1 << 22;
  const int64_t n = matrix.size(1);
  const int64_t columns = std::max<int64_t>(1, kNumbers / std::max<int64_t>(1, x.size(1)));
  auto out = at::empty({x.size(0), n}, x.options());
  for (int64_t begin = 0; begin < n; begin += columns) {
    const int64_t count = std::min(columns, n - begin);
    out.narrow(1, begin, count)
        .copy_(at::mm(x, matrix.narrow(1, begin, count).to(x.scalar_type())));
  }
  return bias.defined() ? out.add_(bias) : out;
}

}  // namespace

bool dots_into(const float* x, const float* rows, float* out, int64_t m, int64_t n, int64_t k) {
  return add_dots({x, rows, out, m, n, k});
}

NarrowParts narrow_parts(const at::Tensor& x, at::ScalarType type) {
  constexpr int kParts = 3;  // of 8 bits each: the 24 of a number of 32
  NarrowParts out;
  auto rest = x;
  if (type == at::kHalf && x.numel() > 0) {
    // Below 2^15, where its numbers end; what lies 2^39 below that is lost.
    const auto largest = x.abs().amax(1, /*keepdim=*/true).clamp_min_(1e-30);
    const auto [mantissa, exponent] = at::frexp(largest);
    const auto above = largest / mantissa;  // a power of two
    out.scale = above.div(0x1p15);
    rest = x / out.scale;
  }
  std::vector<at::Tensor> parts;
  for (int i = 0; i < kParts; ++i) {
    parts.push_back(rest.to(type));
    rest = rest - parts.back().to(at::kFloat);
  }
  out.parts = at::cat(parts);
  return out;
}

at::Tensor product_of_rows(const at::Tensor& x, const at::Tensor& matrix, const at::Tensor& bias) {
  if (fits(x, matrix)) return multiply(x, matrix, bias);
  if (x.scalar_type() != matrix.scalar_type()) return multiply_narrow(x, matrix, bias);
  return bias.defined() ? at::addmm(bias, x, matrix) : at::mm(x, matrix);
}

}  // namespace convoy::nn
