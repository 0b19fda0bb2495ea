#include "convoy/nn/losses/softmax_pass.h"

#include <ATen/ATen.h>

#include <cmath>

#include "convoy/base/lanes.h"
#include "convoy/nn/losses/softmax_kernel.h"
#include "convoy/nn/shapes_only.h"

namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;
using lanes::kLanes;

/// Rows of C scores, with the column of each row's target, -1 where it is not here.
template <class Score>
struct ScoreRows {
  Score* scores;
  int64_t count;  // C
  float inverse_temperature;
  float* log_sums;
  const int64_t* columns;  // null: sums are asked for, else slopes
};

template <class Score>
[[gnu::always_inline]] inline float log_sum(const Score* row, const ScoreRows<Score>& rows) {
  Floats x, highest = Floats{} - HUGE_VALF, sums{};
  for (int64_t i = 0; i < rows.count; i += kLanes) {
    const int64_t count = lanes::count_at(i, rows.count);
    lanes::load(row + i, x, count);
    for (int64_t lane = count; lane < kLanes; ++lane) x[lane] = -HUGE_VALF;
    highest = x > highest ? x : highest;
  }
  const float top = lanes::largest(highest) * rows.inverse_temperature;
  for (int64_t i = 0; i < rows.count; i += kLanes) {
    const int64_t count = lanes::count_at(i, rows.count);
    lanes::load(row + i, x, count);
    x = x * rows.inverse_temperature - top;
    lanes::exponentiate(x);
    for (int64_t lane = count; lane < kLanes; ++lane) x[lane] = 0;
    sums += x;
  }
  double sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return rows.count == 0 ? -HUGE_VALF : static_cast<float>(std::log(sum)) + top;
}

/// Replaces scores by softmax minus one-hot.
template <class Score>
[[gnu::always_inline]] inline void slopes_of_row(Score* row, const ScoreRows<Score>& rows,
                                                 float sum, int64_t column) {
  Floats x, own{};
  if (column >= 0) lanes::load(row + column, own, 1);
  for (int64_t i = 0; i < rows.count; i += kLanes) {
    const int64_t count = lanes::count_at(i, rows.count);
    lanes::load(row + i, x, count);
    x = x * rows.inverse_temperature - sum;
    lanes::exponentiate(x);
    lanes::store(x, row + i, count);
  }
  if (column < 0) return;
  own = own * rows.inverse_temperature - sum;
  lanes::exponentiate(own);
  lanes::store(own - 1.0f, row + column, 1);
}

template <class Score>
[[gnu::always_inline]] inline void each_score_row(const ScoreRows<Score>& rows, int64_t begin,
                                                  int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    Score* row = rows.scores + r * rows.count;
    if (rows.columns == nullptr) {
      rows.log_sums[r] = log_sum(row, rows);
    } else {
      slopes_of_row(row, rows, rows.log_sums[r], rows.columns[r]);
    }
  }
}

CONVOY_CLONES void pass_over(const ScoreRows<float>& rows, int64_t begin, int64_t end) {
  each_score_row(rows, begin, end);
}
CONVOY_CLONES void pass_over(const ScoreRows<Bf16>& rows, int64_t begin, int64_t end) {
  each_score_row(rows, begin, end);
}

template <class Score>
void pass_over_all(const ScoreRows<Score>& rows, int64_t count) {
  in_parallel(0, count, 1 + 16384 / (1 + rows.count),
              [&](int64_t begin, int64_t end) { pass_over(rows, begin, end); });
}

void run_on_host(const at::Tensor& scores, const at::Tensor& log_sums, const int64_t* columns,
                 double temperature) {
  const int64_t R = scores.size(0), C = scores.size(1);
  const auto inverse = static_cast<float>(1 / temperature);
  auto* sums = log_sums.data_ptr<float>();
  auto* values = scores.mutable_data_ptr();
  if (scores.scalar_type() == at::kFloat) {
    pass_over_all(ScoreRows<float>{static_cast<float*>(values), C, inverse, sums, columns}, R);
  } else {
    pass_over_all(ScoreRows<Bf16>{static_cast<Bf16*>(values), C, inverse, sums, columns}, R);
  }
}

}  // namespace

void log_sums_of(const at::Tensor& scores, at::Tensor& log_sums, double temperature) {
  if (scores.is_cpu()) return run_on_host(scores, log_sums, nullptr, temperature);
  if (has_softmax_kernels(scores.device(), scores.scalar_type(), scores.size(1))) {
    return log_sums_by_kernel(scores, log_sums, temperature);
  }
  log_sums.copy_(at::logsumexp(scores.to(at::kFloat).div_(temperature), 1));
}

void to_slopes(at::Tensor& scores, const at::Tensor& log_sums, const at::Tensor& columns,
               double temperature) {
  if (scores.is_cpu()) {
    return run_on_host(scores, log_sums, columns.const_data_ptr<int64_t>(), temperature);
  }
  if (scores.size(1) == 0) return;
  if (has_softmax_kernels(scores.device(), scores.scalar_type(), scores.size(1))) {
    return slopes_by_kernel(scores, log_sums, columns, temperature);
  }
  auto values = (scores.to(at::kFloat) / temperature).sub_(log_sums.unsqueeze(1)).exp_();
  const auto minus = (columns >= 0).to(at::kFloat).neg_().unsqueeze(1);
  scores.copy_(values.scatter_add_(1, columns.clamp_min(0).unsqueeze(1), minus));
}

}  // namespace convoy::nn
