#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Groups for `size` threads of this process; thread r uses groups[r]. Sums are made in rank order,
/// so their bits do not depend on timing. Host tensors go through the same algorithms as those of
/// processes; messages, all-reduce, broadcast and all-gather of GPU tensors go from device to
/// device. `names`: how the ranks are called in messages; `num_threads`: all that compute here,
/// others than these among them.
std::vector<Group> make_thread_groups(int size, std::chrono::milliseconds timeout,
                                      const std::vector<int>& names = {}, int num_threads = 0);

/// Makes groups of some of a process's threads, for a Mesh of each.
class ThreadConnector {
 public:
  /// `num_threads`: all that compute in this process.
  explicit ThreadConnector(std::chrono::milliseconds timeout, int num_threads = 0)
      : timeout_(timeout), num_threads_(num_threads) {}

  /// Returns the group of these ranks, of which `rank` is one, in this order. All ask for it by a
  /// name that no other group has; from any thread.
  Group connect(int rank, const std::vector<int>& ranks, const std::string& name);

 private:
  std::chrono::milliseconds timeout_;
  int num_threads_;
  std::mutex mutex_;
  std::map<std::string, std::vector<Group>> groups_;
};

}  // namespace convoy::comm
