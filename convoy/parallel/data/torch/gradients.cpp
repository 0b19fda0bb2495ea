#include "convoy/parallel/data/torch/gradients.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "convoy/parallel/buffers/finite.h"

namespace convoy::parallel {

namespace {

/// Number of elements that stages send each other at a time, of the gradient of a unit that several
/// hold.
constexpr int64_t kTiedElements = 512 << 10;

/// Zeroes ranges of the flat order in a buffer that begins at `begin`.
void zero(const at::Tensor& buffer, int64_t begin, const std::vector<Extent>& extents) {
  for (const auto& extent : extents) {
    buffer.narrow(0, extent.begin - begin, extent.length()).zero_();
  }
}

}  // namespace

Gradients::Gradients(FlatBuffers& flat, comm::Groups groups, bool reduce_each)
    : flat_(flat),
      groups_(std::move(groups)),
      reduce_each_(reduce_each && is_sharded()),
      pool_(flat.fp32()),
      scratch_pool_(flat.fp32()),
      buckets_(flat.layout().buckets().size()),
      filling_(buckets_.size(), -1),
      begun_(flat.units().size()),
      bound_(flat.units().size(), -1),
      has_sum_(flat.units().size()) {}

void Gradients::begin_step() {
  while (!in_flight_.empty()) complete();  // after an error there may be some
  for (size_t b = 0; b < buckets_.size(); ++b) drop(static_cast<int64_t>(b));
  std::fill(bound_.begin(), bound_.end(), -1);
  has_sum_.assign(has_sum_.size(), false);
  for (auto& begun : begun_) begun.clear();
}

/// Whole gradient of a bucket.
at::Tensor Gradients::whole(int64_t bucket) {
  const auto& all = flat_.layout().buckets()[static_cast<size_t>(bucket)].all;
  if (!is_sharded()) return flat_.grads(bucket, all);
  auto& memory = buckets_[static_cast<size_t>(bucket)];
  if (!memory.defined()) {
    memory = pool_.take(all.length());
    zero(memory, all.begin, flat_.layout().gaps(bucket));
  }
  return memory;
}

at::Tensor Gradients::place_of(int64_t unit) {
  const auto& layout = flat_.layout();
  const int64_t bucket = layout.bucket_of(unit);
  const auto& all = layout.units()[static_cast<size_t>(unit)].all;
  return whole(bucket).narrow(
      0, all.begin - layout.buckets()[static_cast<size_t>(bucket)].all.begin, all.length());
}

/// Whether a micro-batch that begins now writes into the unit's own memory; in a bucket that is
/// reduced after each, only the micro-batch that is reduced next does.
bool Gradients::is_in_place(int64_t unit, int64_t micro_batch) const {
  if (!reduce_each_) return micro_batch == 0 && begun_[static_cast<size_t>(unit)].empty();
  const auto bucket = static_cast<size_t>(flat_.layout().bucket_of(unit));
  if (filling_[bucket] >= 0) return filling_[bucket] == micro_batch;
  const auto& units = flat_.layout().buckets()[bucket].units;
  return std::all_of(units.begin(), units.end(), [&](int64_t other) {
    const auto& begun = begun_[static_cast<size_t>(other)];
    return begun.empty() || begun.begin()->first >= micro_batch;
  });
}

/// Whether a micro-batch that begins now may add to the sum of the finished ones.
bool Gradients::adds_in_place(int64_t unit) const {
  const auto u = static_cast<size_t>(unit);
  if (reduce_each_ || !has_sum_[u] || !begun_[u].empty()) return false;
  const auto& slots = flat_.units()[u].slots;
  return flat_.fp32().device().is_cuda() &&
         std::all_of(slots.begin(), slots.end(),
                     [](const auto& slot) { return slot.param->grad_comes_at_once(); });
}

void Gradients::bind(int64_t unit, int64_t micro_batch) {
  const auto u = static_cast<size_t>(unit);
  if (bound_[u] == micro_batch) return;
  const auto& slots = flat_.units()[u].slots;
  auto& begun = begun_[u];
  if (const auto before = begun.find(bound_[u]); before != begun.end()) {
    before->second.written.clear();
    for (const auto& slot : slots) before->second.written.push_back(slot.param->grad_written());
  }
  const auto& all = flat_.layout().units()[u].all;
  const bool in_place = is_in_place(unit, micro_batch), may_add = adds_in_place(unit);
  const auto [bound, fresh] = begun.try_emplace(micro_batch);
  auto& [scratch, written, adds] = bound->second;
  if (fresh && !in_place && may_add) {
    adds = true;
    written.assign(slots.size(), true);
  } else if (fresh && !in_place) {
    scratch = scratch_pool_.take(all.length());
    const auto gaps = flat_.layout().gaps_of_unit(unit);
    // On a GPU a launch takes as long as some 2 MiB of zeros.
    constexpr int64_t kOfLaunch = 512 << 10;
    const bool at_once =
        scratch.is_cuda() && all.length() < kOfLaunch * static_cast<int64_t>(gaps.size());
    zero(scratch, all.begin, at_once ? std::vector{all} : gaps);
  }
  if (in_place) filling_[static_cast<size_t>(flat_.layout().bucket_of(unit))] = micro_batch;
  flat_.bind_grads(unit, scratch.defined() ? scratch : place_of(unit), all.begin, written, adds);
  bound_[u] = micro_batch;  // not where there was no memory for it
}

void Gradients::accumulate(int64_t unit, int64_t micro_batch) {
  at::NoGradGuard no_grad;
  const auto u = static_cast<size_t>(unit);
  bind(unit, micro_batch);  // a rank without rows, or another micro-batch was here
  for (const auto& slot : flat_.units()[u].slots) {
    if (slot.param->grad_written()) continue;
    auto grad = slot.param->grad();
    grad.zero_();
  }
  auto scratch = begun_[u].extract(micro_batch).mapped().scratch;
  has_sum_[u] = true;
  if (!scratch.defined()) return;
  filling_[static_cast<size_t>(flat_.layout().bucket_of(unit))] = micro_batch;
  if (micro_batch == 0 || reduce_each_) {
    place_of(unit).copy_(scratch);
  } else {
    place_of(unit).add_(scratch);
  }
  scratch_pool_.give(std::move(scratch));
}

void Gradients::reduce_tensor(int64_t unit) {
  const at::NoGradGuard no_grad;
  const auto grad = place_of(unit);
  const int64_t begin = flat_.layout().units()[static_cast<size_t>(unit)].all.begin;
  std::vector<at::Tensor> parts;
  for (const auto& extent : flat_.layout().summed_over_tensor(unit)) {
    parts.push_back(grad.narrow(0, extent.begin - begin, extent.length()));
  }
  auto sum = at::cat(parts);  // one message
  groups_.tensor.all_reduce(sum, comm::ReduceOp::Sum,
                            fmt::format("reduce unit {} over tensor ranks", unit));
  int64_t at = 0;
  for (auto& part : parts) {
    part.copy_(sum.narrow(0, at, part.numel()));
    at += part.numel();
  }
}

void Gradients::reduce(int64_t bucket) {
  const auto& ranks = groups_.gradients_of(of_experts(bucket));
  if (ranks.size() == 1) return;
  in_flight_.push_back({ranks.start_all_reduce(whole(bucket), comm::ReduceOp::Sum,
                                               fmt::format("reduce bucket {}", bucket)),
                        {}});
}

void Gradients::reduce_scatter(int64_t bucket, int64_t micro_batch) {
  auto in = whole(bucket);
  const bool adds = reduce_each_ && micro_batch > 0;
  const auto op = adds ? comm::ReduceOp::Add : comm::ReduceOp::Sum;
  if (offloaded() && !adds) flat_.offload()->create(Kind::Gradients, bucket);
  auto own = flat_.grads(bucket, flat_.part(bucket));
  filling_[static_cast<size_t>(bucket)] = -1;
  const auto& ranks = groups_.shard_of(of_experts(bucket));
  in_flight_.push_back(
      {ranks.start_reduce_scatter(own, in, op, fmt::format("reduce-scatter bucket {}", bucket)),
       std::exchange(buckets_[static_cast<size_t>(bucket)], {})});
  while (is_sharded() && in_flight_.size() > kBucketsInFlight) complete();
}

void Gradients::reduce_tied(int64_t unit) {
  const at::NoGradGuard no_grad;
  while (!in_flight_.empty()) complete();
  const auto& layout = flat_.layout();
  const auto& pipeline = groups_.pipeline;
  const int64_t bucket = layout.bucket_of(unit);
  const auto own = layout.updated(bucket, flat_.rank());
  for (int64_t begin = own.begin; begin < own.end; begin += kTiedElements) {
    const auto mine = flat_.grads(bucket, {begin, std::min(begin + kTiedElements, own.end)});
    // Adds in the order of the stages, so that all of them get the same bits.
    std::vector<at::Tensor> parts;
    for (const int stage : layout.stages_of(unit)) {
      if (stage == pipeline.rank()) {
        parts.push_back(mine);
        continue;
      }
      parts.push_back(at::empty_like(mine));
      const auto label = fmt::format("reduce tied unit {}", unit);
      pipeline.start_send_receive(mine, stage, parts.back(), stage, label).wait();
    }
    if (parts.size() == 2) {  // of two numbers the order does not matter
      mine.add_(parts[mine.is_same(parts[0]) ? 1 : 0]);
      continue;
    }
    auto sum = parts[0] + parts[1];
    for (size_t p = 2; p < parts.size(); ++p) sum.add_(parts[p]);
    mine.copy_(sum);
  }
}

/// Waits for the oldest reduction in flight.
void Gradients::complete() {
  auto oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  oldest.handle.wait();
  if (oldest.memory.defined()) pool_.give(std::move(oldest.memory));
}

void Gradients::complete(int64_t bucket, bool last) {
  while (!in_flight_.empty()) complete();
  if (last) sum_over_replicas(bucket).wait();
}

void Gradients::wait() {
  while (!in_flight_.empty()) complete();
  if (offloaded()) return;
  std::vector<comm::Group::Handle> handles;
  for (int64_t bucket = 0; bucket < flat_.layout().num_trained_buckets(); ++bucket) {
    handles.push_back(sum_over_replicas(bucket));
  }
  for (auto& handle : handles) handle.wait();
}

comm::Group::Handle Gradients::sum_over_replicas(int64_t bucket) {
  // Gradients that are not scattered over the ranks of a state replica are already summed over all
  // ranks.
  if (groups_.replicas.size() == 1 || !flat_.layout().shares_out_updates()) return {};
  return groups_.replicas.start_all_reduce(
      flat_.grads(bucket, flat_.part(bucket)), comm::ReduceOp::Sum,
      fmt::format("reduce part of bucket {} over state replicas", bucket));
}

void Gradients::drop(int64_t bucket) {
  auto& memory = buckets_[static_cast<size_t>(bucket)];
  if (memory.defined()) pool_.give(std::exchange(memory, {}));
  filling_[static_cast<size_t>(bucket)] = -1;
}

bool Gradients::finite(int64_t bucket) {
  const bool finite = is_finite(whole(bucket));
  drop(bucket);
  return finite;
}

}  // namespace convoy::parallel
