#include "convoy/nn/experts/rows_by_expert.h"

#include <ATen/ATen.h>

#include "convoy/base/lanes.h"
#include "convoy/comm/device.h"
#include "convoy/nn/shapes_only.h"

namespace convoy::nn {

namespace {

using lanes::Bf16;
using lanes::Floats;

/// Rows [S, width] whose sums are taken, and where each token's rows are.
template <class T>
struct Sums {
  const T* rows;
  const int64_t* places;  // [N, k]
  const float* weights;   // [N, k]; null: ones
  T* out;                 // [N, width]
  int64_t k, width;
};

template <class T>
[[gnu::always_inline]] inline void add_up(const Sums<T>& sums, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    lanes::each(0, sums.width, [&](int64_t i, int64_t count) __attribute__((always_inline)) {
      Floats sum{}, row;
      for (int64_t pair = token * sums.k; pair < (token + 1) * sums.k; ++pair) {
        lanes::load(sums.rows + sums.places[pair] * sums.width + i, row, count);
        sum += sums.weights == nullptr ? row : sums.weights[pair] * row;
      }
      lanes::store(sum, sums.out + token * sums.width + i, count);
    });
  }
}

CONVOY_CLONES void run(const Sums<float>& sums, int64_t begin, int64_t end) {
  add_up(sums, begin, end);
}

CONVOY_CLONES void run(const Sums<Bf16>& sums, int64_t begin, int64_t end) {
  add_up(sums, begin, end);
}

template <class T>
void add_up_on_host(const at::Tensor& rows, const at::Tensor& places, const at::Tensor& weights,
                    at::Tensor& out) {
  const Sums<T> sums{static_cast<const T*>(rows.const_data_ptr()),
                     places.const_data_ptr<int64_t>(),
                     weights.defined() ? weights.const_data_ptr<float>() : nullptr,
                     static_cast<T*>(out.mutable_data_ptr()),
                     places.size(1),
                     rows.size(1)};
  in_parallel(0, places.size(0), 64, [&](int64_t begin, int64_t end) { run(sums, begin, end); });
}

}  // namespace

RowsByExpert::RowsByExpert(const at::Tensor& ids, int64_t num_experts) {
  const auto flat = ids.reshape({-1});
  auto [sorted, order] = flat.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
  order_ = order;
  experts_ = sorted;
  tokens_ = order.div(ids.size(1), "floor");
  places_ = at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
  places_ = places_.view(ids.sizes());
  const auto experts = at::arange(num_experts, ids.options());
  ends_ = at::searchsorted(sorted, experts, /*out_int32=*/true, /*right=*/true);
}

at::Tensor RowsByExpert::rows(const at::Tensor& states) const {
  return states.index_select(0, tokens_);
}

at::Tensor RowsByExpert::values(const at::Tensor& pairs) const {
  return pairs.reshape({-1}).index_select(0, order_);
}

at::Tensor RowsByExpert::pairs(const at::Tensor& values) const {
  return values.index_select(0, places_.view({-1})).view(places_.sizes());
}

at::Tensor RowsByExpert::sums(const at::Tensor& rows, const at::Tensor& weights) const {
  const auto type = rows.scalar_type();
  if (rows.is_cpu() && (type == at::kFloat || type == at::kBFloat16)) {
    auto out = at::empty({places_.size(0), rows.size(1)}, rows.options());
    const auto factors = weights.defined() ? weights.contiguous() : weights;
    if (type == at::kFloat) {
      add_up_on_host<float>(rows.contiguous(), places_, factors, out);
    } else {
      add_up_on_host<Bf16>(rows.contiguous(), places_, factors, out);
    }
    return out;
  }
  at::Tensor sum;
  for (int64_t i = 0; i < places_.size(1); ++i) {
    auto row = rows.index_select(0, places_.select(1, i)).to(at::kFloat);
    if (weights.defined()) row = row * weights.narrow(1, i, 1);
    sum = sum.defined() ? sum.add_(row) : row;
  }
  return sum.to(type);
}

std::vector<int64_t> RowGroup::ends_on_host() const {
  if (!host.empty()) return host;
  const auto numbers = comm::download_alone(ends).to(at::kLong);
  const auto* first = numbers.const_data_ptr<int64_t>();
  return {first, first + numbers.numel()};
}

}  // namespace convoy::nn
