#include "convoy/nn/losses/ranking.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>

#include "convoy/comm/to_host.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/skinny_gemm.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

at::Tensor ranks_of(const at::Tensor& scores, const at::Tensor& column) {
  auto own = scores.gather(1, column);
  // A NaN score must not look like a hit, hence not (scores > own).
  auto better = (scores <= own).logical_not_();
  auto columns = at::arange(scores.size(1), column.options());
  auto before = (scores == own).logical_and_(columns < column);
  return better.sum(1) + before.sum(1) + 1 - own.isnan().sum(1);
}

/// Ranks of targets from scores [N, C] of this rank's ids from `first` on, where other ranks score
/// the others.
at::Tensor ranks_among_all(const at::Tensor& scores, const at::Tensor& targets, int64_t first,
                           const ParamPtr& table, const comm::Group& tensor) {
  const auto column = (targets - first).unsqueeze(1);
  const auto elsewhere = column.lt(0).logical_or_(column.ge(scores.size(1)));
  auto own = at::zeros(column.sizes(), scores.options());
  if (scores.size(1) > 0) {
    own = scores.gather(1, column.masked_fill(elsewhere, 0)).masked_fill_(elsewhere, 0);
  }
  tensor.all_reduce(own, comm::ReduceOp::Sum, label_of("targets' scores", table));
  auto better = (scores <= own).logical_not_();
  auto before = (scores == own).logical_and_(at::arange(scores.size(1), column.options()) < column);
  auto count = better.sum(1) + before.sum(1);
  tensor.all_reduce(count, comm::ReduceOp::Sum, label_of("better scores", table));
  return count + 1 - own.isnan().sum(1);
}

/// Number of this rank's rows of a table with ids below `first_id`.
int64_t rows_below(const ParamPtr& table, int64_t first_id) {
  return std::clamp<int64_t>(first_id - table->begin(), 0, table->shape()[0]);
}

/// This rank's rows of a table with ids from `first_id` on, one a column.
at::Tensor columns_from(const ParamPtr& table, int64_t first_id) {
  const auto weights = table->value();
  const int64_t below = rows_below(table, first_id);
  return weights.narrow(0, below, weights.size(0) - below).t();
}

/// Best `k` ids [N, k] of scores of the ids from `first_id` on; 0 where fewer compete.
at::Tensor best_ids(const at::Tensor& scores, int64_t k, int64_t first_id) {
  const auto [values, columns] = best_columns(scores, k);
  const auto out =
      (columns + first_id).masked_fill(values == -std::numeric_limits<float>::infinity(), 0);
  return at::constant_pad_nd(out, {0, k - out.size(1)}, 0);
}

}  // namespace

at::Tensor tied_scores(const at::Tensor& h, const ParamPtr& table, double temperature,
                       int64_t first_id, const comm::Group& tensor) {
  at::NoGradGuard no_grad;
  const auto here = product_of_rows(h.to(at::kFloat), columns_from(table, first_id));
  auto scores = gather_columns(here, table, 0, tensor, first_id);
  return temperature == 1 ? scores : scores.div_(temperature);
}

at::Tensor tied_ranks(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                      int64_t first_id, const comm::Group& tensor, const LeftOut& left_out) {
  return tied_lists(h, table, targets, 0, first_id, tensor, left_out).ranks;
}

RankedLists tied_lists(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                       int64_t k, int64_t first_id, const comm::Group& tensor,
                       const LeftOut& left_out) {
  at::NoGradGuard no_grad;
  const bool cut = is_cut(table, 0, tensor);
  auto columns = (targets - first_id).unsqueeze(1);
  const auto items = columns_from(table, first_id).to(at::kFloat);
  const int64_t first = cut ? table->begin() + rows_below(table, first_id) : first_id;
  const int64_t piece = score_rows_at_once(table->spec().shape[0] - first_id, h.device());
  std::vector<at::Tensor> parts{at::empty({0}, targets.options())};
  std::vector<at::Tensor> lists{at::empty({k == 0 ? h.size(0) : 0, k}, targets.options())};
  for (int64_t begin = 0; begin < h.size(0); begin += piece) {
    const int64_t rows = std::min(piece, h.size(0) - begin);
    auto scores = at::mm(h.narrow(0, begin, rows).to(at::kFloat), items);
    left_out.rows(begin, rows).mask(scores, first);
    parts.push_back(
        cut ? ranks_among_all(scores, targets.narrow(0, begin, rows), first, table, tensor)
            : ranks_of(scores, columns.narrow(0, begin, rows)));
    if (k == 0) continue;
    lists.push_back(
        best_ids(cut ? gather_columns(scores, table, 0, tensor, first_id) : scores, k, first_id));
  }
  return {left_out.without_rank(at::cat(parts), targets), at::cat(lists)};
}

BestColumns best_columns(const at::Tensor& scores, int64_t k) {
  at::NoGradGuard no_grad;
  const int64_t all = scores.size(1);
  k = std::min(k, all);
  auto [values, columns] = scores.topk(std::min(k + 1, all), 1);
  if (k > 0 && k < all) {
    // topk() takes any of equal scores where the next one ties with the last.
    const auto border = values.select(1, k - 1);
    const auto split =
        comm::download(border.eq(values.select(1, k))
                           .logical_and_(border != -std::numeric_limits<double>::infinity()));
    columns = columns.narrow(1, 0, k).clone();
    for (int64_t i = 0; i < split.size(0); ++i) {
      if (!split.const_data_ptr<bool>()[i]) continue;
      const auto row = comm::download(scores.select(0, i));
      const auto least = comm::download(border.select(0, i));
      const auto above = (row <= least).logical_not_().nonzero().squeeze(1);  // on the host
      const auto equal = (row == least).nonzero().squeeze(1);                 // on the host
      comm::upload_into(columns.select(0, i), at::cat({above, equal}).narrow(0, 0, k));
    }
  }
  columns = std::get<0>(columns.sort(1));
  values = scores.gather(1, columns);
  const auto order = values.argsort(/*stable=*/true, 1, /*descending=*/true);
  return {values.gather(1, order), columns.gather(1, order)};
}

}  // namespace convoy::nn
