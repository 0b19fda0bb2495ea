#include "convoy/comm/staged_engine.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "convoy/comm/device.h"
#include "convoy/comm/pending.h"
#include "convoy/comm/ticket_work.h"
#include "convoy/shm/worker.h"

namespace convoy::comm {

namespace {

/// Copies of a GPU's tensors to the host. They overlap with the GPU's computing, and the reader of
/// the numbers waits for them. Sources are kept until then, as the allocator would reuse their
/// memory once the queued work is done.
class Arrivals {
 public:
  at::Tensor bring(const at::Tensor& tensor, at::Tensor host) {
    const at::NoGradGuard no_grad;
    const auto device = tensor.device();
    const c10::impl::VirtualGuardImpl gpu(device.type());
    c10::Event computed(device.type());
    computed.record(gpu.getStream(device));
    const auto side = gpu.getStreamFromGlobalPool(device);
    computed.block(side);
    const c10::StreamGuard guard(side);
    host.copy_(tensor, /*non_blocking=*/true);
    copies_.push_back({tensor, std::make_shared<c10::Event>(device.type())});
    copies_.back().done->record(side);
    return host;
  }

  void wait() const {
    for (const auto& copy : copies_) {
      finish_pending_or([&] { return copy.done->query(); });
      copy.done->synchronize();
    }
  }

 private:
  struct Copy {
    at::Tensor source;
    std::shared_ptr<c10::Event> done;
  };
  std::vector<Copy> copies_;
};

class StagedEngine : public Engine {
 public:
  StagedEngine(std::shared_ptr<Engine> engine, at::Device device, bool behind)
      : engine_(std::move(engine)), device_(device), behind_(behind) {}

  const char* name() const override { return engine_->name(); }
  bool adds() const override { return engine_->adds(); }
  bool sends_when_asked() const override { return engine_->sends_when_asked(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    return in_place(tensor, call, [=, this](const at::Tensor& t, const Call& c) {
      return engine_->all_reduce(t, op, c);
    });
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    return into(out, in, call, [=, this](const at::Tensor& o, const at::Tensor& i, const Call& c) {
      return engine_->reduce_scatter(o, i, counts, op, c);
    });
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    return into(out, in, call, [=, this](const at::Tensor& o, const at::Tensor& i, const Call& c) {
      return engine_->all_gather(o, i, counts, c);
    });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    return in_place(tensor, call, [=, this](const at::Tensor& t, const Call& c) {
      return engine_->broadcast(t, root, c);
    });
  }

  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    return into(out, in, call, [=, this](const at::Tensor& o, const at::Tensor& i, const Call& c) {
      return engine_->all_to_all(o, receive, i, send, c);
    });
  }

  // Messages take no turn: their partner may wait for a later call first.
  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    auto copy = home(tensor);
    return then(engine_->send(copy, to, call), [copy] {});
  }

  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    auto copy = space(tensor);
    return back(engine_->receive(copy, from, call), copy, tensor);
  }

  std::shared_ptr<Work> send_receive(at::Tensor out, int to, at::Tensor in, int from,
                                     const Call& call) override {
    auto source = home(out), copy = space(in);
    auto work = engine_->send_receive(source, to, copy, from, call);
    return back(then(std::move(work), [source] {}), copy, in);
  }

  void connect_pairs(const Pairs& pairs, at::Tensor word, const Call& call) override {
    engine_->connect_pairs(pairs, home(word), call);
  }

  void abort(const std::string& reason) override { engine_->abort(reason); }

 private:
  bool is_home(const at::Tensor& tensor) const { return tensor.device().type() == device_.type(); }

  /// Host memory for `tensor`, or the tensor itself where it is on the host.
  at::Tensor space(const at::Tensor& tensor) const {
    if (is_home(tensor)) return tensor;
    return at::empty(tensor.sizes(),
                     tensor.options().device(device_).pinned_memory(device_.is_cpu()));
  }

  at::Tensor home(const at::Tensor& tensor) const {
    return device_.is_cpu() ? download(tensor) : upload(tensor, device_);
  }

  at::Tensor bring(const at::Tensor& tensor, Arrivals& arrivals) {
    if (is_home(tensor)) return tensor;
    if (!device_.is_cpu()) return home(tensor);
    behind_ = true;
    return arrivals.bring(tensor, space(tensor));
  }

  std::shared_ptr<Work> back(std::shared_ptr<Work> work, at::Tensor copy, at::Tensor tensor) const {
    if (copy.is_same(tensor)) return work;
    return then(std::move(work), [copy, tensor, pinned = device_.is_cpu()]() mutable {
      tensor.copy_(download(copy), /*non_blocking=*/pinned);
    });
  }

  template <class Start>
  std::shared_ptr<Work> ordered(const Call& call, Arrivals arrivals, Start start) {
    if (!behind_) return start(call);
    return std::make_shared<TicketWork>(worker_.start(
        [label = call.label, arrivals = std::move(arrivals), start = std::move(start)] {
          arrivals.wait();
          start({label, true})->wait();
        }));
  }

  template <class Run>
  std::shared_ptr<Work> in_place(at::Tensor tensor, const Call& call, const Run& run) {
    Arrivals arrivals;
    auto copy = bring(tensor, arrivals);
    return back(ordered(call, arrivals, [=](const Call& c) { return run(copy, c); }), copy, tensor);
  }

  template <class Run>
  std::shared_ptr<Work> into(at::Tensor out, at::Tensor in, const Call& call, const Run& run) {
    Arrivals arrivals;
    auto source = bring(in, arrivals), copy = space(out);
    return back(ordered(call, arrivals, [=](const Call& c) { return run(copy, source, c); }), copy,
                out);
  }

  std::shared_ptr<Engine> engine_;
  at::Device device_;
  bool behind_;  ///< calls go through the worker, in their order
  shm::Worker worker_;
};

}  // namespace

std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> engine, at::Device device,
                                           bool behind) {
  return std::make_shared<StagedEngine>(std::move(engine), device, behind);
}

}  // namespace convoy::comm
