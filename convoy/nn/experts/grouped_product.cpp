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

/// Calls work(expert, begin, number of rows) for each expert of a group.
template <class Work>
void for_each_expert(const RowGroup& group, const Work& work) {
  int64_t begin = 0, expert = 0;
  for (const int64_t end : group.ends_on_host()) {
    work(expert++, group.begin + begin, end - begin);
    begin = end;
  }
}

at::Tensor rows_of(const at::Tensor& rows, const RowGroup& group) {
  return rows.narrow(0, group.begin, group.size);
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

int64_t GroupedProduct::num_columns() const {
  if (is_one()) return weights_.front()->shape()[2];
  int64_t out = 0;
  for (const auto& param : params_of(0)) out += param->shape()[0];
  return out;
}

at::Tensor GroupedProduct::times(const at::Tensor& rows, const RowGroups& groups, bool few) const {
  const auto all = stack(rows);
  if (all.defined() && groups.size() == 1) {
    return at::_grouped_mm(rows, all.transpose(1, 2), groups[0].ends);
  }
  auto out = at::empty({rows.size(0), num_columns()}, rows.options());
  for (const auto& group : groups) {
    if (group.size == 0) continue;
    if (all.defined()) {
      rows_of(out, group)
          .copy_(at::_grouped_mm(rows_of(rows, group), all.transpose(1, 2), group.ends));
      continue;
    }
    for_each_expert(group, [&](int64_t expert, int64_t begin, int64_t count) {
      if (count == 0) return;
      const auto weight = matrix(expert).t();
      auto place = out.narrow(0, begin, count);
      const auto own = rows.narrow(0, begin, count);
      if (few) {
        place.copy_(product_of_rows(own, weight));
      } else {
        at::mm_out(place, own, weight);
      }
    });
  }
  return out;
}

at::Tensor GroupedProduct::back(const at::Tensor& grads, const RowGroups& groups) const {
  const auto all = stack(grads);
  if (all.defined() && groups.size() == 1) return at::_grouped_mm(grads, all, groups[0].ends);
  auto out = at::empty({grads.size(0), weights_.front()->value().size(1)}, grads.options());
  for (const auto& group : groups) {
    if (group.size == 0) continue;
    if (all.defined()) {
      rows_of(out, group).copy_(at::_grouped_mm(rows_of(grads, group), all, group.ends));
      continue;
    }
    for_each_expert(group, [&](int64_t expert, int64_t begin, int64_t count) {
      if (count == 0) return;
      auto place = out.narrow(0, begin, count);
      at::mm_out(place, grads.narrow(0, begin, count), matrix(expert));
    });
  }
  return out;
}

void GroupedProduct::add_grads_at_once(const at::Tensor& grads, const at::Tensor& rows,
                                       const RowGroup& group) const {
  nn::add_grads(weights_, product_dtype(rows), [=, one = is_one()](at::Tensor& to, bool adds) {
    const auto& left = one ? rows : grads;
    const auto& right = one ? grads : rows;
    const auto sums = at::_grouped_mm(rows_of(left, group).t(), rows_of(right, group), group.ends)
                          .view(to.sizes());
    adds ? to.add_(sums) : to.copy_(sums);
  });
}

void GroupedProduct::add_grads_of(int64_t expert, const at::Tensor& grads,
                                  const at::Tensor& rows) const {
  const auto params = params_of(expert);
  const auto trains = [](const auto& param) { return param->spec().trainable; };
  if (std::all_of(params.begin(), params.end(), trains)) {
    return nn::add_grads(params, product_dtype(rows), [=](at::Tensor& to, bool adds) {
      product_into(to, grads.t(), rows, adds);
    });
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
                                      const RowGroups& groups) const {
  if (!trains()) return;
  for (const auto& group : groups) {
    if (group.size > 0 || groups.size() == 1) add_grads(grads, rows, group, groups.size() == 1);
  }
}

void GroupedProduct::add_grads(const at::Tensor& grads, const at::Tensor& rows,
                               const RowGroup& group, bool alone) const {
  const bool all_train = std::all_of(weights_.begin(), weights_.end(),
                                     [](const auto& weight) { return weight->spec().trainable; });
  if (all_train && stack(rows).defined()) return add_grads_at_once(grads, rows, group);
  if (is_one()) {
    weights_.front()->add_grad(product_dtype(rows), [=](at::Tensor& to, bool adds) {
      for_each_expert(group, [&](int64_t expert, int64_t begin, int64_t count) {
        auto place = to[expert];
        product_into(place, rows.narrow(0, begin, count).t(), grads.narrow(0, begin, count), adds);
      });
    });
    return;
  }
  for_each_expert(group, [&](int64_t expert, int64_t begin, int64_t count) {
    if (count == 0 && !alone) return;
    add_grads_of(expert, grads.narrow(0, begin, count), rows.narrow(0, begin, count));
  });
}

}  // namespace convoy::nn
