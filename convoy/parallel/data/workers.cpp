#include "convoy/parallel/data/workers.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

Workers::Workers(const std::vector<at::Device>& devices, int threads) {
  try {
    for (size_t i = 0; i < devices.size(); ++i) {
      threads_.emplace_back(&Workers::loop, this, static_cast<int>(i), devices[i], threads);
    }
  } catch (...) {
    end();
    throw;
  }
}

Workers::~Workers() {
  end();
}

void Workers::end() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Workers::run(const std::function<void(int)>& work, const std::function<void()>& on_error) {
  std::unique_lock lock(mutex_);
  // The threads see what the caller's thread sees: grad mode, a running profiler.
  const at::ThreadLocalState caller;
  const Voice voice = own_voice();
  const std::function<void(int)> like_caller = [&](int index) {
    const at::ThreadLocalStateGuard guard(caller);
    speak_as(voice);
    work(index);
  };
  work_ = &like_caller;
  on_error_ = &on_error;
  errors_.clear();
  running_ = static_cast<int>(threads_.size());
  ++round_;
  start_.notify_all();
  done_.wait(lock, [this] { return running_ == 0; });
  std::exception_ptr consequence;
  for (auto& error : errors_) {
    try {
      std::rethrow_exception(error);
    } catch (const CommunicationError&) {
      if (!consequence) consequence = error;
    }
  }
  if (consequence) std::rethrow_exception(consequence);
}

void Workers::loop(int index, at::Device device, int threads) {
  at::set_num_threads(threads);
  comm::use_device(device);
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    start_.wait(lock, [&] { return stop_ || round_ != seen; });
    if (stop_) return;
    seen = round_;
    const auto* work = work_;
    const auto* on_error = on_error_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work)(index);
    } catch (...) {
      error = std::current_exception();
      (*on_error)();
    }
    lock.lock();
    if (error) errors_.push_back(error);
    if (--running_ == 0) done_.notify_all();
  }
}

}  // namespace convoy::parallel
