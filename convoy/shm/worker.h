#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "convoy/shm/ticket.h"

namespace convoy::shm {

/// Does one piece of work after the other, in the order given, on a thread of its own. What the
/// caller would wait for anyway it does itself when nothing is before it: a change of threads costs
/// more than a small collective.
class Worker {
 public:
  using Work = std::function<void()>;

  Worker() = default;
  ~Worker();  ///< what has not begun fails
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  std::shared_ptr<Ticket> start(Work work);
  void run(const Work& work);

 private:
  struct Task {
    Work work;
    std::shared_ptr<Ticket> ticket;
  };
  void loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace convoy::shm
