#include "convoy/nn/experts/expert_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "convoy/comm/device.h"

namespace convoy::nn {

ExpertRows::ExpertRows(const RowsByExpert& order, const ExpertRanks& ranks, std::string name)
    : ranks_(ranks.group), name_(std::move(name)), experts_(order.experts()) {
  if (!travels()) {
    groups_ = {order.group()};
    return;
  }
  const int64_t W = ranks_.size();
  const auto ends = order.ends().to(at::kLong);
  const auto counts = at::diff(ends, 1, 0, at::zeros({1}, ends.options()));
  auto coming = at::empty_like(counts);
  ranks_.all_to_all(coming, counts, "numbers of rows of " + name_);
  ends_ = coming.cumsum(0);
  const auto by_rank = comm::download_alone(at::stack({counts, coming}).view({2, W, -1}));
  const auto sums = by_rank.sum(2);
  const auto* sent = sums.const_data_ptr<int64_t>();
  sent_.assign(sent, sent + W);
  received_.assign(sent + W, sent + 2 * W);
  const auto ends_by_rank = by_rank[1].cumsum(1);
  const auto here = coming.view({W, -1}).cumsum(1).to(at::kInt);
  int64_t begin = 0;
  for (int64_t rank = 0; rank < W; ++rank) {
    const auto row = ends_by_rank[rank].contiguous();
    const auto* first = row.const_data_ptr<int64_t>();
    const int64_t size = received_[static_cast<size_t>(rank)];
    groups_.push_back({begin, size, here[rank], {first, first + row.numel()}});
    begin += size;
  }
  if (ranks.joined) join(coming.view({W, -1}));
}

/// Makes one group of all, by the `counts` [ranks, experts here] of their rows.
void ExpertRows::join(const at::Tensor& counts) {
  const auto came_from = experts();
  order_ = std::get<1>(came_from.sort(/*stable=*/true, /*dim=*/0, /*descending=*/false));
  places_ =
      at::empty_like(order_).scatter_(0, order_, at::arange(order_.numel(), order_.options()));
  ends_ = counts.sum(0).cumsum(0);
  std::vector<int64_t> host(groups_.front().host.size(), 0);
  for (const auto& group : groups_) {
    for (size_t e = 0; e < host.size(); ++e) host[e] += group.host[e];
  }
  groups_ = {{0, order_.numel(), ends_.to(at::kInt), std::move(host)}};
}

at::Tensor ExpertRows::experts() const {
  if (!travels()) return experts_;
  const auto rows = at::arange(groups_.back().begin + groups_.back().size, ends_.options());
  return at::searchsorted(ends_, rows, /*out_int32=*/false, /*right=*/true)
      .remainder_(groups_.front().ends.numel());
}

at::Tensor ExpertRows::sent_over(const at::Tensor& rows, const comm::Counts& send,
                                 const comm::Counts& receive, const char* what) const {
  const auto own = rows.contiguous();
  auto sizes = own.sizes().vec();
  sizes[0] = std::accumulate(receive.begin(), receive.end(), int64_t{0});
  auto out = at::empty(sizes, own.options());
  const int64_t width = own.dim() > 1 ? own.size(1) : 1;
  const auto elements = [&](comm::Counts counts) {
    for (auto& count : counts) count *= width;
    return counts;
  };
  ranks_.all_to_all(out, own, fmt::format("{} of {}", what, name_), elements(receive),
                    elements(send));
  return out;
}

at::Tensor ExpertRows::there(const at::Tensor& rows, const char* what) const {
  if (!travels()) return rows;
  const auto came = sent_over(rows, sent_, received_, what);
  return order_.defined() ? came.index_select(0, order_) : came;
}

at::Tensor ExpertRows::back(const at::Tensor& rows, const char* what) const {
  if (!travels()) return rows;
  return sent_over(places_.defined() ? rows.index_select(0, places_) : rows, received_, sent_,
                   what);
}

}  // namespace convoy::nn
