#include "convoy/nn/losses/left_out.h"

#include <ATen/ATen.h>

namespace convoy::nn {

namespace {

constexpr float kNoScore = -std::numeric_limits<float>::infinity();

/// Columns of ids, and a mask of those that exist.
std::pair<at::Tensor, at::Tensor> columns_of(const at::Tensor& ids, int64_t first, int64_t stride,
                                             int64_t num_columns) {
  const auto ahead = ids - first;
  const auto columns = ahead.div(stride, "floor");
  return {columns, (ids > 0)
                       .logical_and_(columns * stride == ahead)
                       .logical_and_(columns >= 0)
                       .logical_and_(columns < num_columns)};
}

/// Sets `columns` [N, X] that exist in each row of `scores` [N, C], without a wait for a GPU, which
/// would have to tell their number.
void fill_behind(at::Tensor& scores, const at::Tensor& columns, const at::Tensor& exist) {
  const int64_t C = scores.size(1);
  auto filled = at::zeros({columns.size(0), C + 1}, scores.options().dtype(at::kBool));
  filled.scatter_(1, at::where(exist, columns, C), 1);
  scores.masked_fill_(filled.narrow(1, 0, C), kNoScore);
}

}  // namespace

LeftOut LeftOut::rows(int64_t begin, int64_t count) const {
  return {ids, of_rows.defined() ? of_rows.narrow(0, begin, count) : of_rows};
}

void LeftOut::mask(at::Tensor& scores, int64_t first, int64_t stride) const {
  if (ids.defined()) {
    const auto [columns, exist] = columns_of(ids, first, stride, scores.size(1));
    if (scores.is_cpu()) {
      scores.index_fill_(1, columns.masked_select(exist), kNoScore);  // on the host
    } else {
      fill_behind(scores, columns.unsqueeze(0), exist.unsqueeze(0));
    }
  }
  if (!of_rows.defined()) return;
  const auto [columns, exist] = columns_of(of_rows, first, stride, scores.size(1));
  if (!scores.is_cpu()) return fill_behind(scores, columns, exist);
  const auto rows = at::arange(of_rows.size(0), of_rows.options()).unsqueeze(1).expand_as(of_rows);
  const auto at_rows = rows.masked_select(exist);        // on the host
  const auto at_columns = columns.masked_select(exist);  // on the host
  const c10::List<std::optional<at::Tensor>> places{at_rows, at_columns};
  scores.index_put_(places, at::scalar_tensor(kNoScore, scores.options()));
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
