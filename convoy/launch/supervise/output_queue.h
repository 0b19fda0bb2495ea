#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "convoy/launch/supervise/agent.h"

namespace convoy::launch {

/// Hands the launcher's words and the ranks' lines to LaunchOptions' callbacks, in order and in a
/// thread of its own: a terminal that takes nothing must not keep the launcher from its work.
class OutputQueue {
 public:
  explicit OutputQueue(const LaunchOptions& options);
  ~OutputQueue();  ///< waits until all is said
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;

  void say(std::string_view text);
  /// A line of a rank; dropped when far too many wait, for its log has it.
  void pass_on(int rank, int local_rank, bool is_error, std::string_view line);
  /// Whether so many lines wait that the ranks should wait too, as they would at the terminal.
  bool is_behind() const;

 private:
  struct Task {
    size_t bytes;
    std::function<void()> run;
  };

  void add(size_t bytes, std::function<void()> run);
  void work();

  const decltype(LaunchOptions::say) say_;
  const decltype(LaunchOptions::tee) tee_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  size_t waiting_bytes_ = 0;
  size_t num_dropped_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace convoy::launch
