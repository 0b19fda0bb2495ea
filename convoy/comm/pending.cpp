#include "convoy/comm/pending.h"

#include <fmt/format.h>

#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"

namespace convoy::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// Time that a wait polls before it sleeps: the shortest sleep takes 70 us, by the slack of Linux's
/// timers.
constexpr auto kSpin = std::chrono::microseconds(200);

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

  void finish(const std::function<bool()>& is_over) {
    auto since = Clock::now();
    std::optional<int64_t> known;  // what was given up before
    while (!is_over()) {
      PendingWork first;
      {
        const std::lock_guard lock(mutex_);
        if (times_given_up_ != known.value_or(times_given_up_)) throw CommunicationError(*why_);
        known = times_given_up_;
        if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
        if (drop_done()) since = Clock::now();
        if (works_.empty()) return;
        first = works_.front();
      }
      if (Clock::now() - since > first.timeout) give_up(first);
      const Doing told("wait for " + first.label);
      const auto start = Clock::now();
      while (!first.work->done() && !is_over()) {
        const auto waited = Clock::now() - start;
        if (waited > std::chrono::milliseconds(50)) break;
        if (waited > kSpin) std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    }
  }

  bool is_stuck() {
    const std::lock_guard lock(mutex_);
    const auto late = given_up_.lock();
    return late && !late->done();
  }

 private:
  /// Removes finished collectives from the front; returns whether there were any. Throws the error
  /// that one ended with.
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
    const CommunicationError why(
        fmt::format("[comm] '{}' did not finish within {:g} s on the GPU; another rank may have "
                    "failed or not have called it",
                    late.label, static_cast<double>(late.timeout.count()) / 1000),
        late.others);
    {
      const std::lock_guard lock(mutex_);
      works_.clear();
      given_up_ = late.work;
      why_ = why;
      ++times_given_up_;
    }
    throw CommunicationError(why);
  }

  std::mutex mutex_;
  std::deque<PendingWork> works_;
  std::exception_ptr failed_;
  std::weak_ptr<Work> given_up_;           // the last one
  std::optional<CommunicationError> why_;  // it was
  int64_t times_given_up_ = 0;
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
  pending().finish([] { return false; });
}

void finish_pending_or(const std::function<bool()>& is_over) {
  pending().finish(is_over);
}

bool is_stuck() {
  return pending().is_stuck();
}

}  // namespace convoy::comm
