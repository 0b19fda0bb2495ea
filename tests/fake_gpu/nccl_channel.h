#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tests/fake_gpu/order.h"

namespace convoy::fake_gpu {

using Tensors = std::vector<at::Tensor>;

/// What became of a collective.
struct Outcome {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  bool hangs = false;  ///< another rank died, or did not come in time: on a GPU it never ends
};

/// The work of one call, as c10d::ProcessGroupNCCL::WorkNCCL without blocking wait.
class NcclWork : public c10d::Work {
 public:
  NcclWork(std::shared_ptr<Outcome> outcome, c10::Stream stream, Clock end, Tensors kept,
           std::chrono::milliseconds patience, std::shared_ptr<std::atomic<bool>> stuck);

  /// Makes the current stream wait. The operations after it run at once here, so the host waits,
  /// too, though it knows nothing by that; not for ever.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  /// As the query of an event: the host knows then. Who asks in passing hears no, whatever the time
  /// it took; who asks again and does nothing else in between hears the truth.
  bool isCompleted() override;
  bool isSuccess() const override { return true; }
  std::exception_ptr exception() const { return nullptr; }

 private:
  std::shared_ptr<Outcome> outcome_;
  c10::Stream stream_;
  Clock end_;
  Tensors kept_;  // torch keeps what is used until somebody waits
  std::chrono::milliseconds patience_;
  std::shared_ptr<std::atomic<bool>> stuck_;  // somebody waited in vain: the others need not
  std::atomic<int64_t> launched_before_;      // since the process began; -1: counted
  std::atomic<uint64_t> asked_at_{std::numeric_limits<uint64_t>::max()};
};

/// A communicator: a stream of its own, on which calls run in their order, by a thread over Gloo.
class NcclChannel {
 public:
  using Run = std::function<Tensors(c10d::ProcessGroupGloo&, const Tensors& inputs)>;

  /// Returns when all ranks have come.
  NcclChannel(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, at::Device device,
              std::chrono::milliseconds timeout);
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  /// `run` gets copies of `inputs` as they are now and returns what `outputs` become; these are not
  /// numbers until then. With `by_all` every rank must call the same with as many bytes; else it
  /// never ends, as on a GPU.
  c10::intrusive_ptr<NcclWork> start(const std::string& name, const Tensors& inputs,
                                     const Tensors& outputs, Run run, bool by_all = true);
  /// What is under way never ends.
  void abort();

 private:
  struct Call {
    int64_t signature;  // what all ranks must call, or 0
    Tensors inputs, outputs;
    Run run;
    std::shared_ptr<Outcome> outcome;
  };
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Call> calls;
    bool stop = false, hangs = false;
    std::atomic<bool> stuck = false;
    c10::intrusive_ptr<c10d::ProcessGroupGloo> gloo;
  };
  static void work(const std::shared_ptr<State>& state);
  static Tensors carry_out(c10d::ProcessGroupGloo& gloo, const Call& call);

  at::Device device_;
  c10::Stream stream_;
  std::chrono::milliseconds patience_;
  std::shared_ptr<State> state_;
};

}  // namespace convoy::fake_gpu
