#include "convoy/tasks/session/evaluated_rows.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/session/session.h"

namespace convoy::tasks {

std::span<const int64_t> EvaluatedRows::list(int64_t i, int64_t k) const {
  const auto all = std::span(items).subspan(static_cast<size_t>(i * list_size),
                                            static_cast<size_t>(std::min(k, list_size)));
  const auto end = std::ranges::find(all, 0);
  return {all.begin(), end};
}

void RowCollector::add(const parallel::MicroBatch& batch, int64_t first_sample,
                       const nn::Bundle& out) {
  if (!out.contains(models::kTargetRow)) {
    fail<UsageError>("tasks",
                     "--segments, --metrics all, --bootstrap and the comparison of two runs do not "
                     "go with tables by rows; try without --row_tables");
  }
  const auto rows = comm::download(out.at(models::kTargetRow)).to(at::kLong);
  const int64_t count = rows.size(0);
  auto part = at::empty({count, 2 + list_size_}, at::kLong);
  part.select(1, 0).copy_(batch.samples.index_select(0, rows) + first_sample);  // on the host
  comm::download_into(part.select(1, 1), out.at("target_rank"));
  comm::download_into(part.narrow(1, 2, list_size_), out.at(models::kTopItems));
  parts_.push_back(std::move(part));
}

EvaluatedRows RowCollector::gather(const comm::Group& group) const {
  auto own = at::empty({0, 2 + list_size_}, at::kLong);
  if (!parts_.empty()) own = at::cat(parts_);
  const auto all = group.gather_rows(own, "gather evaluated rows");
  EvaluatedRows out{.list_size = list_size_};
  if (group.rank() != 0) return out;
  const auto sorted = all.index_select(0, all.select(1, 0).argsort()).contiguous();
  const auto* numbers = sorted.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < sorted.size(0); ++i, numbers += 2 + list_size_) {
    out.rows.push_back(numbers[0]);
    out.ranks.push_back(numbers[1]);
    out.items.insert(out.items.end(), numbers + 2, numbers + 2 + list_size_);
  }
  return out;
}

}  // namespace convoy::tasks
