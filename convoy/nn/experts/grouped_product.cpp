#include "convoy/nn/experts/grouped_product.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "convoy/comm/device.h"
#include "convoy/nn/product.h"
#include "convoy/nn/side_by_side.h"
#include "convoy/nn/skinny_gemm.h"

namespace convoy::nn {

namespace {

/// Calls work(expert, begin, number of rows) for each expert.
template <class Work>
void for_each_expert(const RowsByExpert& order, const Work& work) {
  int64_t begin = 0, expert = 0;
  for (const int64_t end : order.ends_on_host()) {
    work(expert++, begin, end - begin);
    begin = end;
  }
}

}  // namespace

GroupedProduct::GroupedProduct(std::vector<ParamPtr> weights, int64_t num_experts)
    : weights_(std::move(weights)), num_experts_(num_experts) {}

bool GroupedProduct::trains() const {
  return std::any_of(weights_.begin(), weights_.end(),
                     [](const auto& weight) { return weight->spec().trainable; });
}

std::vector<ParamPtr> GroupedProduct::params_of(int64_t expert) const {
  const int64_t each = std::ssize(weights_) / num_experts_;
  const auto first = weights_.begin() + expert * each;
  return {first, first + each};
}

at::Tensor GroupedProduct::matrix(int64_t expert) const {
  if (is_one()) return weights_.front()->value()[expert].t();
  return joined(values_of(params_of(expert)), 0);
}

at::Tensor GroupedProduct::stack(const at::Tensor& rows) const {
  constexpr int64_t kAligned = 8;              // numbers of 16 bits
  constexpr int kHopper = 9, kBlackwell = 10;  // elsewhere torch's call waits for the host
  if (!rows.is_cuda() || rows.scalar_type() != at::kBFloat16) return {};
  const int capability = comm::compute_capability(rows.device());
  if (capability != kHopper && capability != kBlackwell) return {};
  at::Tensor all;
  if (is_one()) {
    all = weights_.front()->value().transpose(1, 2);
  } else if (all = side_by_side(values_of(weights_), 0); all.defined()) {
    all = all.view({num_experts_, -1, all.size(1)});
  }
  const bool fits = all.defined() && all.size(1) % kAligned == 0 && all.size(2) % kAligned == 0;
  return fits ? all : at::Tensor();
}

at::Tensor GroupedProduct::times(const at::Tensor& rows, const RowsByExpert& order,
                                 bool few) const {
  if (const auto all = stack(rows); all.defined()) {
    return at::_grouped_mm(rows, all.transpose(1, 2), order.ends());
  }
  at::Tensor out;
  for_each_expert(order, [&](int64_t expert, int64_t begin, int64_t count) {
    const auto weight = matrix(expert).t();
    if (!out.defined()) out = at::empty({rows.size(0), weight.size(1)}, rows.options());
    if (count == 0) return;
    auto place = out.narrow(0, begin, count);
    const auto own = rows.narrow(0, begin, count);
    if (few) {
      place.copy_(product_of_rows(own, weight));
    } else {
      at::mm_out(place, own, weight);
    }
  });
  return out;
}

at::Tensor GroupedProduct::back(const at::Tensor& grads, const RowsByExpert& order) const {
  if (const auto all = stack(grads); all.defined()) {
    return at::_grouped_mm(grads, all, order.ends());
  }
  auto out = at::empty({grads.size(0), weights_.front()->value().size(1)}, grads.options());
  for_each_expert(order, [&](int64_t expert, int64_t begin, int64_t count) {
    if (count == 0) return;
    auto place = out.narrow(0, begin, count);
    at::mm_out(place, grads.narrow(0, begin, count), matrix(expert));
  });
  return out;
}

void GroupedProduct::add_grads_at_once(const at::Tensor& grads, const at::Tensor& rows,
                                       const RowsByExpert& order) const {
  add_grads(weights_, product_dtype(rows), [=, one = is_one()](at::Tensor& to, bool adds) {
    const auto& left = one ? rows : grads;
    const auto& right = one ? grads : rows;
    const auto sums = at::_grouped_mm(left.t(), right, order.ends()).view(to.sizes());
    adds ? to.add_(sums) : to.copy_(sums);
  });
}

void GroupedProduct::add_grads_of(int64_t expert, const at::Tensor& grads,
                                  const at::Tensor& rows) const {
  const auto params = params_of(expert);
  const auto trains = [](const auto& param) { return param->spec().trainable; };
  if (std::all_of(params.begin(), params.end(), trains)) {
    return add_grads(params, product_dtype(rows),
                     [=](at::Tensor& to, bool adds) { product_into(to, grads.t(), rows, adds); });
  }
  int64_t column = 0;
  for (const auto& param : params) {  // some are frozen
    const auto own = grads.narrow(1, column, param->shape()[0]);
    column += param->shape()[0];
    param->add_grad(product_dtype(rows),
                    [=](at::Tensor& to, bool adds) { product_into(to, own.t(), rows, adds); });
  }
}

void GroupedProduct::add_weight_grads(const at::Tensor& grads, const at::Tensor& rows,
                                      const RowsByExpert& order) const {
  if (!trains()) return;
  const bool all_train = std::all_of(weights_.begin(), weights_.end(),
                                     [](const auto& weight) { return weight->spec().trainable; });
  if (all_train && stack(rows).defined()) return add_grads_at_once(grads, rows, order);
  if (is_one()) {
    weights_.front()->add_grad(product_dtype(rows), [=](at::Tensor& to, bool adds) {
      for_each_expert(order, [&](int64_t expert, int64_t begin, int64_t count) {
        auto place = to[expert];
        product_into(place, rows.narrow(0, begin, count).t(), grads.narrow(0, begin, count), adds);
      });
    });
    return;
  }
  for_each_expert(order, [&](int64_t expert, int64_t begin, int64_t count) {
    add_grads_of(expert, grads.narrow(0, begin, count), rows.narrow(0, begin, count));
  });
}

}  // namespace convoy::nn
