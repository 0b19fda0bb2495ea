#include "convoy/nn/losses/left_out.h"

#include <ATen/ATen.h>

namespace convoy::nn {

namespace {

constexpr float kLeast = -std::numeric_limits<float>::infinity();

/// Columns of ids, and which of them exist.
std::pair<at::Tensor, at::Tensor> columns_of(const at::Tensor& ids, int64_t first, int64_t stride,
                                             int64_t num_columns) {
  const auto ahead = ids - first;
  const auto columns = ahead.div(stride, "floor");
  return {columns, (ids > 0)
                       .logical_and_(columns * stride == ahead)
                       .logical_and_(columns >= 0)
                       .logical_and_(columns < num_columns)};
}

}  // namespace

LeftOut LeftOut::rows(int64_t begin, int64_t count) const {
  return {ids, of_rows.defined() ? of_rows.narrow(0, begin, count) : of_rows};
}

void LeftOut::mask(at::Tensor& scores, int64_t first, int64_t stride) const {
  if (ids.defined()) {
    const auto [columns, exist] = columns_of(ids, first, stride, scores.size(1));
    scores.index_fill_(1, columns.masked_select(exist), kLeast);
  }
  if (!of_rows.defined()) return;
  const auto [columns, exist] = columns_of(of_rows, first, stride, scores.size(1));
  const auto rows = at::arange(of_rows.size(0), of_rows.options()).unsqueeze(1).expand_as(of_rows);
  const c10::List<std::optional<at::Tensor>> places{rows.masked_select(exist),
                                                    columns.masked_select(exist)};
  scores.index_put_(places, at::scalar_tensor(kLeast, scores.options()));
}

at::Tensor LeftOut::without_rank(const at::Tensor& ranks, const at::Tensor& targets) const {
  auto out = ranks;
  if (ids.defined()) out = out.masked_fill(at::isin(targets, ids), kNoRank);
  if (of_rows.defined()) {
    out = out.masked_fill((of_rows == targets.unsqueeze(1)).any(1), kNoRank);
  }
  return out;
}

}  // namespace convoy::nn
