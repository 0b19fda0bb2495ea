#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace convoy::comm {

/// A barrier for the threads of a group at which each leaves an item for the others.
/// Every wait can be aborted and ends after the timeout. Knows nothing of torch. Items are shared,
/// so that they live while any thread reads them, also when their owner fails and leaves.
class ThreadBarrier {
 public:
  using Item = std::shared_ptr<const void>;

  /// `names`: how the ranks are called in messages; none: by their numbers here.
  ThreadBarrier(int size, std::chrono::milliseconds timeout, std::vector<int> names = {});

  /// Leaves `item` and returns, when all are there, the items of all ranks.
  /// Throws CommunicationError naming `label` and who is missing, on abort or timeout.
  std::vector<Item> gather(int rank, Item item, const std::string& label);

  /// Waits until all ranks are here.
  void barrier(int rank, const std::string& label) { gather(rank, nullptr, label); }

  void abort(const std::string& reason);

 private:
  std::vector<Item> leave(uint64_t round);
  int name(int rank) const { return names_.empty() ? rank : names_.at(static_cast<size_t>(rank)); }

  const int size_;
  const std::vector<int> names_;
  const std::chrono::milliseconds timeout_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Item> items_[2];  // of the barrier under way and of the one before, until all left
  int num_inside_[2] = {0, 0};
  std::vector<std::string> labels_;
  int num_here_ = 0;
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> aborted_{false};
  std::string reason_;
};

}  // namespace convoy::comm
