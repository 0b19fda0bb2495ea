#pragma once

#include <atomic>
#include <exception>

namespace convoy::shm {

/// Work that another thread does for the one who waits.
class Ticket {
 public:
  /// Returns when it is done; throws what went wrong.
  void wait() {
    done_.wait(false, std::memory_order_acquire);
    if (error_) std::rethrow_exception(error_);
  }
  bool is_done() const { return done_.load(std::memory_order_acquire); }

  void finish(std::exception_ptr error = nullptr) {
    error_ = std::move(error);
    done_.store(true, std::memory_order_release);
    done_.notify_all();
  }

 private:
  std::atomic<bool> done_{false};
  std::exception_ptr error_;
};

}  // namespace convoy::shm
