#include "convoy/comm/thread/thread_barrier.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::comm {

ThreadBarrier::ThreadBarrier(int size, std::chrono::milliseconds timeout, std::vector<int> names)
    : size_(size), names_(std::move(names)), timeout_(timeout), labels_(static_cast<size_t>(size)) {
  for (auto& items : items_) items.assign(static_cast<size_t>(size), nullptr);
}

std::vector<ThreadBarrier::Item> ThreadBarrier::gather(int rank, Item item,
                                                       const std::string& label) {
  std::unique_lock lock(mutex_);
  const uint64_t round = round_;
  auto& items = items_[round % 2];
  if (aborted_) fail<CommunicationError>("comm", "'{}' was stopped: {}", label, reason_);
  items[static_cast<size_t>(rank)] = std::move(item);
  labels_[static_cast<size_t>(rank)] = label;
  if (++num_here_ == size_) {
    num_here_ = 0;
    labels_.assign(labels_.size(), "");
    num_inside_[round % 2] = size_;
    ++round_;
    arrived_.notify_all();
    return leave(round);
  }
  bool done = arrived_.wait_for(lock, timeout_, [&] { return round_ != round || aborted_; });
  if (round_ != round) return leave(round);
  if (aborted_) fail<CommunicationError>("comm", "'{}' was stopped: {}", label, reason_);
  internal_check(!done, "comm", "barrier woke without reason");
  std::vector<int> missing;
  for (int r = 0; r < size_; ++r) {
    if (labels_[static_cast<size_t>(r)].empty()) missing.push_back(name(r));
  }
  fail<CommunicationError>("comm", "rank {} waited {} ms in '{}' for rank {}", name(rank),
                           timeout_.count(), label, fmt::join(missing, ", "));
}

/// Returns the items; the last thread to leave removes them.
std::vector<ThreadBarrier::Item> ThreadBarrier::leave(uint64_t round) {
  auto& items = items_[round % 2];
  auto all = items;
  if (--num_inside_[round % 2] == 0) std::fill(items.begin(), items.end(), nullptr);
  return all;
}

void ThreadBarrier::abort(const std::string& reason) {
  std::lock_guard lock(mutex_);
  if (aborted_) return;
  reason_ = reason;
  aborted_ = true;
  arrived_.notify_all();
}

}  // namespace convoy::comm
