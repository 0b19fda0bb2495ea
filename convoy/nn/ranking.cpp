#include "convoy/nn/ranking.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "convoy/nn/cross_entropy.h"

namespace convoy::nn {

namespace {

at::Tensor ranks_of(const at::Tensor& scores, const at::Tensor& column) {
  auto own = scores.gather(1, column);
  // Not (scores > own): a score that is no number must not look like a hit.
  auto better = (scores <= own).logical_not_();
  auto columns = at::arange(scores.size(1), column.options());
  auto before = (scores == own).logical_and_(columns < column);
  return better.sum(1) + before.sum(1) + 1 - own.isnan().sum(1);
}

}  // namespace

at::Tensor tied_scores(const at::Tensor& h, const ParamPtr& table, double temperature,
                       int64_t first_id) {
  at::NoGradGuard no_grad;
  auto weights = table->value().to(at::kFloat);
  auto items = weights.narrow(0, first_id, weights.size(0) - first_id);
  auto scores = at::mm(h.to(at::kFloat), items.t());
  return temperature == 1 ? scores : scores.div_(temperature);
}

at::Tensor tied_ranks(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                      int64_t first_id) {
  auto columns = (targets - first_id).unsqueeze(1);
  const int64_t piece = score_rows_at_once(table->shape()[0] - first_id, h.device());
  std::vector<at::Tensor> parts{at::empty({0}, targets.options())};
  for (int64_t begin = 0; begin < h.size(0); begin += piece) {
    const int64_t rows = std::min(piece, h.size(0) - begin);
    auto scores = tied_scores(h.narrow(0, begin, rows), table, 1, first_id);
    parts.push_back(ranks_of(scores, columns.narrow(0, begin, rows)));
  }
  return at::cat(parts);
}

}  // namespace convoy::nn
