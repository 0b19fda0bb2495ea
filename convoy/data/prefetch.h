#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "convoy/base/error.h"

namespace convoy::data {

/// Runs a producer ahead of its consumer on a thread of its own, by at most `depth` items.
template <class T>
class Prefetch {
 public:
  using Producer = std::function<std::optional<T>()>;

  Prefetch() = default;
  ~Prefetch() { stop(); }
  Prefetch(const Prefetch&) = delete;
  Prefetch& operator=(const Prefetch&) = delete;

  /// Begins to call `produce`, until it returns nothing or throws.
  void start(size_t depth, Producer produce) {
    stop();
    stopping_ = done_ = false;
    error_ = nullptr;
    thread_ = std::thread([this, depth, produce = std::move(produce)] { run(depth, produce); });
    started_ = true;
  }

  /// Returns the next item; nothing after the last. Rethrows what the producer threw, once the
  /// items made before are taken.
  std::optional<T> next() {
    if (!started_) fail<UsageError>("data", "the loader was not started; call start(epoch) first");
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !items_.empty() || done_; });
    if (!items_.empty()) {
      std::optional<T> item = std::move(items_.front());
      items_.pop_front();
      changed_.notify_all();
      return item;
    }
    if (error_) std::rethrow_exception(error_);
    return std::nullopt;
  }

  /// Ends the thread, after the item it is at, and drops what was made ahead.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    items_.clear();
    started_ = false;
  }

 private:
  void run(size_t depth, const Producer& produce) {
    try {
      while (wait_for_space(depth)) {
        std::optional<T> item = produce();
        std::lock_guard lock(mutex_);
        if (!item) break;
        items_.push_back(std::move(*item));
        changed_.notify_all();
      }
    } catch (...) {
      std::lock_guard lock(mutex_);
      error_ = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

  bool wait_for_space(size_t depth) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return items_.size() < depth || stopping_; });
    return !stopping_;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
  std::exception_ptr error_;
  std::thread thread_;
  bool started_ = false;
  bool stopping_ = false;
  bool done_ = false;
};

}  // namespace convoy::data
