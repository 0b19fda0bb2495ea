#include "tests/fake_gpu/nccl_channel.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "tests/fake_gpu/counters.h"
#include "tests/fake_gpu/memory.h"
#include "tests/fake_gpu/operation.h"
#include "tests/fake_gpu/options.h"
#include "tests/fake_gpu/sites.h"

namespace convoy::fake_gpu {

namespace {

/// convoy gives NCCL a minute more than its own limit.
constexpr std::chrono::milliseconds kMinute{60000};

void set_hanging(const std::shared_ptr<Outcome>& outcome) {
  {
    const std::lock_guard lock(outcome->mutex);
    outcome->hangs = true;
  }
  outcome->changed.notify_all();
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> connect(const c10::intrusive_ptr<c10d::Store>& store,
                                                   int rank, int size,
                                                   std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace

NcclWork::NcclWork(std::shared_ptr<Outcome> outcome, c10::Stream stream, Clock end, Tensors kept,
                   std::chrono::milliseconds patience, std::shared_ptr<std::atomic<bool>> stuck)
    : outcome_(std::move(outcome)),
      stream_(stream),
      end_(std::move(end)),
      kept_(std::move(kept)),
      patience_(patience),
      stuck_(std::move(stuck)),
      launched_before_(total_counts().launches) {}

bool NcclWork::wait(std::chrono::milliseconds) {
  if (const int64_t before = launched_before_.exchange(-1); before >= 0) {
    count({.collectives = 1, .meanwhile = total_counts().launches - before});
  }
  const bool known = host_knows(end_);  // then waiting changes nothing
  if (!known && ignored_here("work_wait")) return true;
  if (!mutated("nccl_wait_orders_nothing")) {
    stream_waits(current_stream(stream_.device_index()), end_);
  }
  std::unique_lock lock(outcome_->mutex);
  const bool ended =
      outcome_->changed.wait_for(lock, *stuck_ ? std::chrono::milliseconds(0) : patience_,
                                 [&] { return outcome_->done || outcome_->hangs; });
  if (!ended) outcome_->hangs = *stuck_ = true;
  const auto kept = std::exchange(kept_, {});  // several threads may wait
  lock.unlock();
  return true;
}

bool NcclWork::isCompleted() {
  const uint64_t now = num_launches_here();
  if (asked_at_.exchange(now) != now && !host_knows(end_)) return false;
  {
    const std::lock_guard lock(outcome_->mutex);
    if (!outcome_->done) return false;
  }
  host_waits(end_);
  return true;
}

NcclChannel::NcclChannel(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                         at::Device device, std::chrono::milliseconds timeout)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(c10::kCUDA).getNewStream(device)),
      patience_(std::max(timeout - kMinute, std::chrono::milliseconds(1000))),
      state_(std::make_shared<State>()) {
  // As torch 2.15 with NCCL 2.29 tells it.
  TORCH_CHECK_WITH(
      DistBackendError, options().pretends != "no_route",
      "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote process exited "
      "or there was a network error, NCCL version 2.29.7\nncclRemoteError: A call failed possibly "
      "due to a network error or a remote process exiting prematurely.\nLast error:\n"
      "socketPollConnect: connect to 10.0.0.2<40001> returned No route to host, exceeded error "
      "retry count after 35 attempts");
  state_->gloo = connect(store, rank, size, timeout);
  std::thread([state = state_] { work(state); }).detach();
}

NcclChannel::~NcclChannel() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop = true;
  }
  state_->changed.notify_all();
}

Tensors NcclChannel::carry_out(c10d::ProcessGroupGloo& gloo, const Call& call) {
  if (call.signature != 0) {
    Tensors own{at::full({1}, call.signature, at::kLong)};
    std::vector<Tensors> all(1);
    for (int r = 0; r < gloo.getSize(); ++r) all[0].push_back(at::empty_like(own[0]));
    gloo.allgather(all, own)->wait();
    for (const auto& other : all[0]) {
      TORCH_CHECK(at::equal(other, own[0]), "the ranks call different things");
    }
  }
  return call.run(gloo, call.inputs);
}

void NcclChannel::work(const std::shared_ptr<State>& state) {
  const at::NoGradGuard no_grad;
  while (true) {
    Call call;
    {
      std::unique_lock lock(state->mutex);
      state->changed.wait(lock, [&] { return state->stop || !state->calls.empty(); });
      if (state->calls.empty()) return;
      call = std::move(state->calls.front());
      state->calls.pop_front();
      if (state->hangs) {
        set_hanging(call.outcome);
        continue;
      }
    }
    try {
      const auto results = carry_out(*state->gloo, call);
      for (size_t i = 0; i < results.size(); ++i) on_host(call.outputs[i]).copy_(results[i]);
    } catch (const std::exception&) {
      const std::lock_guard lock(state->mutex);
      state->hangs = true;
      set_hanging(call.outcome);
      continue;
    }
    call.inputs.clear();
    call.outputs.clear();
    {
      const std::lock_guard lock(call.outcome->mutex);
      call.outcome->done = true;
    }
    call.outcome->changed.notify_all();
  }
}

c10::intrusive_ptr<NcclWork> NcclChannel::start(const std::string& name, const Tensors& inputs,
                                                const Tensors& outputs, Run run, bool by_all) {
  const at::NoGradGuard no_grad;
  for (const auto* tensors : {&inputs, &outputs}) {
    for (const auto& tensor : *tensors) {
      TORCH_CHECK(tensor.is_cuda(), "Tensors must be CUDA and dense");
      TORCH_CHECK(tensor.device() == device_, "Tensor list input to ", name,
                  " must be on the communicator's device");
      TORCH_CHECK(tensor.is_contiguous(), "Tensors must be contiguous");
    }
  }
  if (!mutated("unordered_nccl")) {
    stream_waits(stream_, reached(current_stream(device_.index())));
  }
  Operation operation("nccl " + name, stream_);
  size_t bytes = 0;
  for (const auto& tensor : inputs.empty() ? outputs : inputs) bytes += tensor.nbytes();
  const auto signature = static_cast<int64_t>(std::hash<std::string>{}(name) / 4 + bytes + 1);
  Call call{by_all ? signature : 0, {}, outputs, std::move(run), std::make_shared<Outcome>()};
  for (const auto& input : inputs) {
    operation.reads(input);
    call.inputs.push_back(on_host(input).clone());
  }
  for (const auto& output : outputs) {
    operation.writes(output);
    poison(output.data_ptr(), output.nbytes());
  }
  auto kept = inputs;
  kept.insert(kept.end(), outputs.begin(), outputs.end());
  auto work = c10::make_intrusive<NcclWork>(
      call.outcome, stream_, reached(stream_), std::move(kept), patience_,
      std::shared_ptr<std::atomic<bool>>(state_, &state_->stuck));
  {
    const std::lock_guard lock(state_->mutex);
    state_->calls.push_back(std::move(call));
  }
  state_->changed.notify_all();
  return work;
}

void NcclChannel::abort() {
  const std::lock_guard lock(state_->mutex);
  state_->hangs = true;
  for (const auto& call : state_->calls) set_hanging(call.outcome);
  state_->changed.notify_all();
}

}  // namespace convoy::fake_gpu
