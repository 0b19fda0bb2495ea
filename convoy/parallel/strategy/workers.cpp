#include "convoy/parallel/strategy/workers.h"

#include <ATen/Parallel.h>
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/tensor_memory.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

/// Time for the other threads to end, once one has failed.
constexpr std::chrono::seconds kPatience{4};
/// Further time where a thread failed by an error of its own: the others may be within a long
/// block, or in an operation that nothing ends.
constexpr std::chrono::seconds kForOthers{60};

bool is_consequence(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const CommunicationError&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

struct Workers::State {
  explicit State(size_t size) : operations(size), memory(size), works(size) {}

  std::mutex mutex;
  std::condition_variable start, done;
  std::shared_ptr<const std::function<void(int)>> work;
  std::function<void()> on_error;
  uint64_t round = 0;
  size_t running = 0;
  bool stop = false;
  std::vector<Failure> failures;
  std::vector<ThreadOperation> operations;
  std::vector<ThreadMemory> memory;
  std::vector<char> works;  // [thread] it has not ended
};

Workers::Workers(const std::vector<at::Device>& devices, int threads)
    : state_(std::make_shared<State>(devices.size())) {
  try {
    for (size_t i = 0; i < devices.size(); ++i) {
      threads_.emplace_back(&Workers::loop, state_, static_cast<int>(i), devices[i], threads);
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
  std::vector<char> works;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
    works = state_->works;
  }
  state_->start.notify_all();
  for (size_t i = 0; i < threads_.size(); ++i) {
    works[i] ? threads_[i].detach() : threads_[i].join();
  }
}

void Workers::run(std::function<void(int)> work, const std::function<void()>& on_error) {
  if (const auto failure = try_run(std::move(work), on_error)) {
    std::rethrow_exception(failure->error);
  }
}

std::optional<Workers::Failure> Workers::try_run(std::function<void(int)> work,
                                                 const std::function<void()>& on_error) {
  auto& state = *state_;
  std::unique_lock lock(state.mutex);
  internal_check(state.running == 0, "parallel", "a thread was left behind");
  // The threads see what the caller's thread sees: grad mode, a running profiler.
  const auto caller = std::make_shared<const at::ThreadLocalState>();
  const Voice voice = own_voice();
  state.work = std::make_shared<const std::function<void(int)>>(
      [caller, voice, work = std::move(work)](int index) {
        const at::ThreadLocalStateGuard guard(*caller);
        speak_as(voice);
        work(index);
      });
  state.on_error = on_error;
  state.failures.clear();
  state.running = threads_.size();
  std::fill(state.works.begin(), state.works.end(), 1);
  ++state.round;
  state.start.notify_all();
  const auto all_ended = [&] { return state.running == 0; };
  state.done.wait(lock, [&] { return all_ended() || !state.failures.empty(); });
  const auto cause = [&] {
    return std::find_if(state.failures.begin(), state.failures.end(),
                        [](const Failure& failure) { return !is_consequence(failure.error); });
  };
  state.done.wait_for(lock, kPatience, all_ended);
  if (cause() != state.failures.end()) state.done.wait_for(lock, kForOthers, all_ended);
  state.work.reset();
  state.on_error = {};
  if (state.failures.empty()) return std::nullopt;
  if (cause() != state.failures.end()) return *cause();
  auto failure = state.failures.front();
  const auto stuck = std::find(state.works.begin(), state.works.end(), 1);
  if (stuck == state.works.end()) return failure;
  failure.index = static_cast<int>(stuck - state.works.begin());
  failure.operation = state.operations[static_cast<size_t>(failure.index)].told();
  failure.is_stuck = true;
  return failure;
}

int64_t Workers::take_passing_bytes(int index) {
  return state_->memory.at(static_cast<size_t>(index)).take_passing();
}

void Workers::loop(std::shared_ptr<State> shared, int index, at::Device device, int threads) {
  auto& state = *shared;
  const auto i = static_cast<size_t>(index);
  at::set_num_threads(threads);
  comm::use_device(device);
  tell_too(&state.operations[i]);
  suffer_faults_of(index);
  thread_memory = &state.memory[i];
  uint64_t seen = 0;
  std::unique_lock lock(state.mutex);
  while (true) {
    state.start.wait(lock, [&] { return state.stop || state.round != seen; });
    if (state.stop) break;
    seen = state.round;
    auto work = state.work;
    auto on_error = state.on_error;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*work)(index);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error) state.failures.push_back({index, state.operations[i].told(), error});
    state.works[i] = 0;
    --state.running;
    state.done.notify_all();
    lock.unlock();
    work.reset();
    if (error) on_error();
    on_error = {};
    lock.lock();
  }
  tell_too(nullptr);
  thread_memory = nullptr;
}

}  // namespace convoy::parallel
