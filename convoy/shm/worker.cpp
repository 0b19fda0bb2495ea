#include "convoy/shm/worker.h"

#include "convoy/base/error.h"
#include "convoy/shm/cores.h"

namespace convoy::shm {

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  for (auto& task : tasks_) {
    task.ticket->finish(
        std::make_exception_ptr(CommunicationError("[comm] the group was closed too early")));
  }
}

std::shared_ptr<Ticket> Worker::start(Work work) {
  auto ticket = std::make_shared<Ticket>();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back({std::move(work), ticket, current_core()});
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
  return ticket;
}

void Worker::run(const Work& work) {
  std::unique_lock lock(mutex_);
  if (busy_ || !tasks_.empty()) {
    lock.unlock();
    return start(work)->wait();
  }
  busy_ = true;
  lock.unlock();
  const auto finish = [&] {
    lock.lock();
    busy_ = false;
    lock.unlock();
    changed_.notify_all();
  };
  try {
    work();
  } catch (...) {
    finish();
    throw;
  }
  finish();
}

void Worker::loop() {
  int core = -1;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || (!busy_ && !tasks_.empty()); });
    if (stop_) return;
    auto task = std::move(tasks_.front());
    tasks_.pop_front();
    busy_ = true;
    lock.unlock();
    if (stays_with_caller_ && task.core != core) stay_on_core(core = task.core);
    std::exception_ptr error;
    try {
      task.work();
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    busy_ = false;
    lock.unlock();
    // The caller may go on after finish(), and free memory that the work holds.
    task.work = nullptr;
    task.ticket->finish(std::move(error));
    lock.lock();
  }
}

}  // namespace convoy::shm
