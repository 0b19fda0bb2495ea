#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "convoy/shm/ticket.h"

namespace convoy::shm {

/// Runs pieces of work one after the other, in the order given, on a thread of its own. Work for
/// which the caller would wait anyway runs in the caller's thread when nothing is before it: a
/// change of threads costs more than a small collective.
class Worker {
 public:
  using Work = std::function<void()>;

  /// `stays_with_caller`: the thread runs on the core from which it was given the work. Where all
  /// cores compute, it would else push the computing thread of another rank from its core.
  explicit Worker(bool stays_with_caller = false) : stays_with_caller_(stays_with_caller) {}
  ~Worker();  ///< work that has not begun fails
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::shared_ptr<Ticket> start(Work work);
  void run(const Work& work);

 private:
  struct Task {
    Work work;
    std::shared_ptr<Ticket> ticket;
    int core;
  };
  void loop();

  bool stays_with_caller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace convoy::shm
