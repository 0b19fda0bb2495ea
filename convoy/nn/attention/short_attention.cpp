#include "convoy/nn/attention/short_attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/lanes.h"
#include "convoy/nn/attention/seen.h"
#include "convoy/nn/node.h"
#include "convoy/nn/shapes_only.h"

// Shapes: B rows, T positions, S positions looked at, H heads, K key heads, G = H / K, E width of a
// head.
namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

// Largest sizes for this kernel: beyond them torch's fused kernel is as fast, and keeps less
// memory.
constexpr int64_t kMostPairs = 1 << 14, kMostKeys = 1024;
constexpr float kNever = -HUGE_VALF;

/// Softmax of S scores in place, over the first `seen`, masked by `hidden` (0 or minus infinity;
/// may be null). The others become zero.
template <class T>
[[gnu::always_inline]] inline void to_probabilities(T* row, int64_t seen, int64_t S, float scale,
                                                    const float* hidden) {
  std::array<float, kMostKeys> values;
  Floats largest = Floats{} + kNever;
  for (int64_t i = 0; i < seen; i += kLanes) {
    const int64_t count = lanes::count_at(i, seen);
    Floats x;
    lanes::load(row + i, x, count);
    x *= scale;
    if (hidden != nullptr) {
      Floats never;
      lanes::load(hidden + i, never, count);
      x += never;
    }
    if (count < kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) x[lane] = lane < count ? x[lane] : kNever;
    }
    largest = x > largest ? x : largest;
    lanes::store(x, values.data() + i);
  }
  float top = lanes::largest(largest);
  if (top == kNever) top = 0;

  Floats sums{};
  for (int64_t i = 0; i < seen; i += kLanes) {
    Floats x;
    lanes::load(values.data() + i, x);
    Floats e = x - top;
    lanes::exponentiate(e);
    sums += e;
    lanes::store(e, values.data() + i);
  }
  const float total = lanes::sum(sums), share = total == 0 && hidden != nullptr ? 0 : 1 / total;
  for (int64_t i = 0; i < S; i += kLanes) {
    Floats p{};
    if (i < seen) lanes::load(values.data() + i, p);
    lanes::store(p * share, row + i, lanes::count_at(i, S));
  }
}

/// Turns the gradients of a row's probabilities into those of its products.
template <class T>
[[gnu::always_inline]] inline void to_slopes(T* row, const T* probabilities, int64_t S,
                                             float scale) {
  Floats grad, p, sums{};
  for (int64_t i = 0; i < S; i += kLanes) {
    lanes::load(row + i, grad, lanes::count_at(i, S));
    lanes::load(probabilities + i, p, lanes::count_at(i, S));
    sums += grad * p;
  }
  const float mean = lanes::sum(sums);
  for (int64_t i = 0; i < S; i += kLanes) {
    lanes::load(row + i, grad, lanes::count_at(i, S));
    lanes::load(probabilities + i, p, lanes::count_at(i, S));
    lanes::store(p * (grad - mean) * scale, row + i, lanes::count_at(i, S));
  }
}

/// Rows of S numbers, in which row r is position r % T of batch row r / rows_of_batch.
template <class T>
struct Rows {
  T* values;
  const T* probabilities;  // null: forward
  const float* hidden;     // [B, S] or null
  int64_t S, num_positions, rows_of_batch;
  bool causal;
  float scale;
};

template <class T>
[[gnu::always_inline]] inline void all(const Rows<T>& rows, int64_t begin, int64_t end) {
  const int64_t S = rows.S;
  for (int64_t r = begin; r < end; ++r) {
    T* row = rows.values + r * S;
    if (rows.probabilities != nullptr) {
      to_slopes(row, rows.probabilities + r * S, S, rows.scale);
      continue;
    }
    const int64_t position = r % rows.num_positions;
    const int64_t seen = rows.causal ? S - rows.num_positions + position + 1 : S;
    const auto* hidden = rows.hidden;
    if (hidden != nullptr) hidden += r / rows.rows_of_batch * S;
    to_probabilities(row, seen, S, rows.scale, hidden);
  }
}

CONVOY_CLONES void run(const Rows<float>& rows, int64_t begin, int64_t end) {
  all(rows, begin, end);
}

CONVOY_CLONES void run(const Rows<Bf16>& rows, int64_t begin, int64_t end) {
  all(rows, begin, end);
}

class Short {
 public:
  Short(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
        const AttentionOptions& options, double scale)
      : B_(q.size(0)),
        H_(q.size(1)),
        T_(q.size(2)),
        K_(k.size(1)),
        q_(q.detach()),
        k_(k.detach()),
        v_(v.detach()),
        scale_(static_cast<float>(scale)),
        causal_(options.causal) {
    if (options.key_mask.defined()) {
      const auto mask = options.key_mask.expand({B_, k.size(2)});
      hidden_ = at::zeros(mask.sizes(), at::kFloat).masked_fill_(mask.logical_not(), kNever);
    }
  }

  at::Tensor forward() {
    probabilities_ = at::matmul(grouped(q_), k_.transpose(2, 3));
    pass(probabilities_, {});
    return ungrouped(at::matmul(probabilities_, v_));
  }

  std::vector<at::Tensor> backward(const at::Tensor& grad) {
    const auto g = grouped(grad);
    auto slopes = at::matmul(g, v_.transpose(2, 3));
    pass(slopes, probabilities_);
    return {ungrouped(at::matmul(slopes, k_)), at::matmul(slopes.transpose(2, 3), grouped(q_)),
            at::matmul(probabilities_.transpose(2, 3), g)};
  }

 private:
  /// Views [B, H, T, any] as [B, K, G x T, any].
  at::Tensor grouped(const at::Tensor& x) const {
    return x.reshape({B_, K_, H_ / K_ * T_, x.size(3)});
  }
  at::Tensor ungrouped(const at::Tensor& x) const { return x.view({B_, H_, T_, x.size(3)}); }

  void pass(at::Tensor& values, const at::Tensor& probabilities) const {
    values.scalar_type() == at::kFloat ? pass<float>(values, probabilities)
                                       : pass<Bf16>(values, probabilities);
  }
  template <class T>
  void pass(at::Tensor& values, const at::Tensor& probabilities) const {
    internal_check(values.is_contiguous(), "nn", "scores are not contiguous");
    const bool forward = !probabilities.defined();
    const Rows<T> rows{static_cast<T*>(values.mutable_data_ptr()),
                       forward ? nullptr : static_cast<const T*>(probabilities.const_data_ptr()),
                       hidden_.defined() ? hidden_.const_data_ptr<float>() : nullptr,
                       values.size(3),
                       T_,
                       H_ * T_,
                       causal_,
                       scale_};
    in_parallel(0, B_ * H_ * T_, 64, [&](int64_t begin, int64_t end) { run(rows, begin, end); });
  }

  int64_t B_, H_, T_, K_;
  at::Tensor q_, k_, v_;
  float scale_;
  bool causal_;
  at::Tensor hidden_, probabilities_;
};

}  // namespace

bool is_short(const at::Tensor& q, const at::Tensor& k, const AttentionOptions& options) {
  const bool dtype = q.scalar_type() == at::kFloat || q.scalar_type() == at::kBFloat16;
  const bool plain = options.dropout == 0 && !options.bias.defined() && options.cap == 0 &&
                     !options.sinks.defined() && !is_windowed(options, k.size(2));
  // A position that a mask hides from all others sees itself: torch's kernel is told that.
  const bool masks = options.causal && options.key_mask.defined();
  return q.is_cpu() && dtype && plain && !masks && q.size(2) * k.size(2) <= kMostPairs &&
         k.size(2) <= kMostKeys;
}

at::Tensor short_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                           const AttentionOptions& options, double scale) {
  auto state = std::make_shared<Short>(q, k, v, options, scale);
  const auto out = without_grad([&] { return state->forward(); });
  return with_backward(out, {q, k, v},
                       [state](const at::Tensor& grad) { return state->backward(grad); });
}

}  // namespace convoy::nn
