#include "convoy/models/session/in_batch_negatives.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/comm/device.h"

namespace convoy::models {

InBatchNegatives::InBatchNegatives(const std::vector<int64_t>& counts, int64_t num_ids)
    : log_shares_(at::empty({num_ids}, at::kFloat)) {
  const auto count_of = [&](int64_t id) {
    const auto at = static_cast<size_t>(id);
    return static_cast<double>(at < counts.size() ? std::max<int64_t>(1, counts[at]) : 1);
  };
  double sum = 0;
  for (int64_t id = 1; id < num_ids; ++id) sum += count_of(id);
  auto* logs = log_shares_.data_ptr<float>();
  for (int64_t id = 0; id < num_ids; ++id)
    logs[id] = static_cast<float>(std::log(count_of(id) / sum));
}

nn::SampledNegatives InBatchNegatives::of(const nn::StepIds& step,
                                          const at::Tensor& targets) const {
  const auto device = targets.device();
  if (log_shares_.device() != device) log_shares_ = comm::upload(log_shares_, device);
  const auto ids = comm::upload(step.ids, device);
  const auto times = comm::upload(step.counts.to(at::kFloat).log(), device);
  return {ids, log_shares_.index_select(0, ids) - times, log_shares_.index_select(0, targets)};
}

}  // namespace convoy::models
