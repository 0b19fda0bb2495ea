#include "convoy/parallel/run/step_ids.h"

#include <ATen/ATen.h>

#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"

namespace convoy::parallel {

namespace {

/// Ids of all ranks, in any order, padded to equal numbers with a value that is no id.
at::Tensor of_all_ranks(const at::Tensor& own, const comm::Group& ranks, at::Device device) {
  if (ranks.size() == 1) return own;
  constexpr int64_t kNone = -1;
  const auto length = comm::upload(at::full({1}, own.numel(), at::kLong), device);
  const auto most = comm::item<int64_t>(ranks.all_gather(length, "count ids of the step").max());
  auto filled = at::full({most}, kNone, at::kLong);
  filled.narrow(0, 0, own.numel()).copy_(own);
  const auto all = ranks.all_gather(comm::upload(filled, device), "ids of the step");
  const auto ids = comm::download(all).view({-1});
  return ids.masked_select(ids != kNone);  // on the host
}

}  // namespace

nn::StepIds collect_ids(nn::Block& last, const std::vector<MicroBatch>& micro_batches,
                        const StepInput& input, const comm::Group& ranks, at::Device device) {
  std::vector<at::Tensor> told{at::empty({0}, at::kLong)};
  for (const auto& batch : micro_batches) {
    if (batch.empty()) continue;
    const nn::Context context{.mode = nn::Mode::Train,
                              .seed = input.seed,
                              .step = input.step,
                              .samples = batch.samples,
                              .loaded = &batch.inputs};
    told.push_back(last.told_ids(batch.inputs, context));
  }
  return nn::StepIds::of(of_all_ranks(at::cat(told), ranks, device));
}

}  // namespace convoy::parallel
