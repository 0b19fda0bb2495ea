#include "convoy/parallel/gathers.h"

#include <fmt/format.h>

#include <utility>

namespace convoy::parallel {

Gathers::Gathers(Arena& arena, comm::Group shard)
    : arena_(arena), shard_(std::move(shard)), under_way_(arena.layout().buckets().size()) {}

void Gathers::start(int64_t bucket) {
  const auto& layout = arena_.layout();
  const auto label = fmt::format("gather bucket {}", bucket);
  auto& handle = under_way_[static_cast<size_t>(bucket)];
  std::exchange(handle, {}).wait();
  // Threads that write into the same memory need only know when all are done.
  if (layout.options().shares_weights) return shard_.barrier(label);
  const auto part = arena_.part(bucket);
  const auto begin = layout.buckets()[static_cast<size_t>(bucket)].all.begin;
  const bool slices = layout.in_slices(schedule::Kind::Weights, bucket);
  if (slices) arena_.attach(bucket);
  auto out = arena_.bucket_weights(bucket);
  auto own = out.narrow(0, part.begin - begin, part.length());
  if (layout.offloaded(schedule::Kind::Weights)) {
    own.copy_(arena_.weights(bucket, part));
    arena_.offload()->drop(schedule::Kind::Weights, bucket);
  } else if (slices) {
    own = arena_.weights(bucket, part);  // nobody writes it before the gather is waited for
  }
  handle = shard_.start_all_gather(out, own, label);
}

void Gathers::await(const schedule::Instruction& instruction) {
  if (shard_.size() == 1) return;
  for (const int64_t bucket : schedule::reads(instruction, arena_.layout())) {
    std::exchange(under_way_[static_cast<size_t>(bucket)], {}).wait();
  }
}

void Gathers::settle() {
  for (auto& handle : under_way_) std::exchange(handle, {}).wait();
}

}  // namespace convoy::parallel
