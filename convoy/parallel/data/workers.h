#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace convoy::parallel {

/// A thread for each of some devices; all run the same function side by side, again and again.
class Workers {
 public:
  /// Each thread computes on its device, with `threads` intra-op threads.
  Workers(const std::vector<at::Device>& devices, int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Runs `work(index)` on every thread and returns when all are done. Calls `on_error` as soon as
  /// one throws, so that the others can be woken; then throws the first error that was not a
  /// CommunicationError, else the first one.
  void run(const std::function<void(int)>& work, const std::function<void()>& on_error);

 private:
  void loop(int index, at::Device device, int threads);
  void end();

  std::mutex mutex_;
  std::condition_variable start_, done_;
  const std::function<void(int)>* work_ = nullptr;
  const std::function<void()>* on_error_ = nullptr;
  uint64_t round_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::exception_ptr> errors_;
  std::vector<std::thread> threads_;
};

}  // namespace convoy::parallel
