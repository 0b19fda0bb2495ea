#include "convoy/parallel/zero/torch/gathers.h"

#include <fmt/format.h>

#include <utility>

namespace convoy::parallel {

Gathers::Gathers(FlatBuffers& flat, comm::Groups groups)
    : flat_(flat), groups_(std::move(groups)), under_way_(flat.layout().buckets().size()) {}

void Gathers::start(int64_t bucket) {
  const auto& layout = flat_.layout();
  const auto label = fmt::format("gather bucket {}", bucket);
  auto& handle = under_way_[static_cast<size_t>(bucket)];
  std::exchange(handle, {}).wait();
  // Threads that write into the same memory need only know when all are done.
  const auto& shard = groups_.shard_of(layout.of_experts(bucket));
  if (layout.options().shares_weights) return shard.barrier(label);
  const auto part = flat_.part(bucket);
  const auto begin = layout.buckets()[static_cast<size_t>(bucket)].all.begin;
  const bool sharded = layout.is_sharded(Kind::Weights, bucket);
  if (sharded) flat_.attach(bucket);
  auto out = flat_.bucket_weights(bucket);
  auto own = out.narrow(0, part.begin - begin, part.length());
  if (layout.offloaded(Kind::Weights)) {
    own.copy_(flat_.weights(bucket, part));
    flat_.offload()->drop(Kind::Weights, bucket);
  } else if (sharded) {
    own = flat_.weights(bucket, part);  // nobody writes it before the gather is waited for
  }
  handle = shard.start_all_gather(out, own, label);
}

void Gathers::await(const Instruction& instruction) {
  if (groups_.shard.size() == 1) return;
  for (const int64_t bucket : reads(instruction, flat_.layout())) {
    std::exchange(under_way_[static_cast<size_t>(bucket)], {}).wait();
  }
}

void Gathers::settle() {
  for (auto& handle : under_way_) std::exchange(handle, {}).wait();
}

}  // namespace convoy::parallel
