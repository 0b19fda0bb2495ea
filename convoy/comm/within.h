#pragma once

#include <c10/util/Logging.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

#include "convoy/base/activity.h"

// Guards against c10d's signals, waits and logs, above all while the ranks meet.
namespace convoy::comm {

/// Guard: while it lives, a write to a closed pipe or socket is an error and not SIGPIPE, in this
/// thread and those it starts. In the started threads that stays so.
class NoBrokenPipes {
 public:
  NoBrokenPipes() {
    ::sigemptyset(&signal_);
    ::sigaddset(&signal_, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signal_, &before_);
  }
  ~NoBrokenPipes() {
    if (::sigismember(&before_, SIGPIPE) == 1) return;
    const timespec at_once{};
    ::sigtimedwait(&signal_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipes(const NoBrokenPipes&) = delete;
  NoBrokenPipes& operator=(const NoBrokenPipes&) = delete;

 private:
  sigset_t signal_, before_;
};

/// Time left until `end`, never below zero.
inline std::chrono::milliseconds until(std::chrono::steady_clock::time_point end) {
  const auto left = end - std::chrono::steady_clock::now();
  return std::max(std::chrono::duration_cast<std::chrono::milliseconds>(left),
                  std::chrono::milliseconds(0));
}

/// Returns the result of `make`, or nothing when it takes longer than `limit`: for waits in others'
/// code that know no timeout. It runs on a thread of its own, which is left behind when it is late.
template <class Make>
std::optional<std::invoke_result_t<Make>> within(std::chrono::milliseconds limit, Make make) {
  const Voice caller = own_voice();
  std::packaged_task<std::invoke_result_t<Make>()> task([make = std::move(make), caller]() mutable {
    const NoBrokenPipes none;
    speak_as(caller);
    return make();
  });
  auto made = task.get_future();
  std::thread(std::move(task)).detach();
  if (made.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return made.get();
}

/// Guard: while one lives, c10d logs nothing, unless TORCH_CPP_LOG_LEVEL is set. c10d would log
/// every attempt with a stack trace; the error tells what failed in the end.
class QuietC10d {
 public:
  QuietC10d() {
    const std::lock_guard lock(mutex_);
    if (num_alive_++ > 0) return;
    before_ = FLAGS_caffe2_log_level;
    if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
  }
  ~QuietC10d() {
    const std::lock_guard lock(mutex_);
    if (--num_alive_ == 0) FLAGS_caffe2_log_level = before_;
  }
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;

 private:
  static inline std::mutex mutex_;
  static inline int num_alive_ = 0;
  static inline int before_ = 0;
};

}  // namespace convoy::comm
