#include "convoy/launch/supervise/output_queue.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include "convoy/base/text.h"

namespace convoy::launch {
namespace {

constexpr size_t kBehindBytes = 1 << 20;
constexpr size_t kMostBytes = 16 << 20;

}  // namespace

OutputQueue::OutputQueue(const LaunchOptions& options)
    : say_(options.say), tee_(options.tee), thread_([this] { work(); }) {}

OutputQueue::~OutputQueue() {
  if (num_dropped_ > 0) {
    say(fmt::format("[launch] not shown, but in the logs: {}\n", plural(num_dropped_, "line")));
  }
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void OutputQueue::say(std::string_view text) {
  if (say_) add(text.size(), [this, text = std::string(text)] { say_(text); });
}

void OutputQueue::pass_on(int rank, int local_rank, bool is_error, std::string_view line) {
  if (!tee_) return;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_bytes_ > kMostBytes) {
      ++num_dropped_;
      return;
    }
  }
  add(line.size(), [=, this, line = std::string(line)] { tee_(rank, local_rank, is_error, line); });
}

bool OutputQueue::is_behind() const {
  const std::lock_guard lock(mutex_);
  return waiting_bytes_ > kBehindBytes;
}

void OutputQueue::add(size_t bytes, std::function<void()> run) {
  {
    const std::lock_guard lock(mutex_);
    bytes += sizeof(Task);
    waiting_bytes_ += bytes;
    tasks_.push_back({bytes, std::move(run)});
  }
  changed_.notify_one();
}

void OutputQueue::work() {
  sigset_t broken_pipe;  // who listens may leave; the ranks go on
  ::sigemptyset(&broken_pipe);
  ::sigaddset(&broken_pipe, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task.run();
    lock.lock();
    waiting_bytes_ -= task.bytes;
  }
}

}  // namespace convoy::launch
