#include "convoy/comm/pending.h"

#include <fmt/format.h>

#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"

namespace convoy::comm {

namespace {

using Clock = std::chrono::steady_clock;

class Pending {
 public:
  void add(PendingWork work) {
    const std::lock_guard lock(mutex_);
    try {
      drop_done();
    } catch (const std::exception&) {  // of another collective than this one: finish() tells
      if (!failed_) failed_ = std::current_exception();
    }
    works_.push_back(std::move(work));
  }

  void finish() {
    auto since = Clock::now();
    while (true) {
      PendingWork first;
      {
        const std::lock_guard lock(mutex_);
        if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
        if (drop_done()) since = Clock::now();
        if (works_.empty()) return;
        first = works_.front();
      }
      if (Clock::now() - since > first.timeout) give_up(first);
      const Doing told("wait for " + first.label);
      const auto start = Clock::now();
      while (!first.work->done() && Clock::now() - start < std::chrono::milliseconds(50)) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

 private:
  /// Whether there was one. Throws what went wrong with it.
  bool drop_done() {
    bool dropped = false;
    while (!works_.empty() && works_.front().work->done()) {
      const auto work = std::move(works_.front().work);
      works_.pop_front();
      work->wait();
      dropped = true;
    }
    return dropped;
  }

  [[noreturn]] void give_up(const PendingWork& late) {
    {
      const std::lock_guard lock(mutex_);
      works_.clear();
    }
    throw CommunicationError(
        fmt::format("[comm] '{}' did not finish within {:g} s on the GPU; another rank may have "
                    "failed or not have called it",
                    late.label, static_cast<double>(late.timeout.count()) / 1000),
        late.others);
  }

  std::mutex mutex_;
  std::deque<PendingWork> works_;
  std::exception_ptr failed_;
};

Pending& pending() {
  static Pending all;
  return all;
}

}  // namespace

void add_pending(PendingWork work) {
  pending().add(std::move(work));
}

void finish_pending() {
  pending().finish();
}

}  // namespace convoy::comm
