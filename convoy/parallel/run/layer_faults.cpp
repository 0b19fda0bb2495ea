#include "convoy/parallel/run/layer_faults.h"

#include <ATen/ATen.h>

#include <cmath>
#include <utility>

#include "convoy/base/fault.h"

namespace convoy::parallel {

namespace {

using comm::Call;
using comm::Counts;
using comm::ReduceOp;
using WorkPtr = std::shared_ptr<comm::Work>;

constexpr const char *kForward = "layer", *kBackward = "layer_backward";

class FaultyEngine : public comm::Engine {
 public:
  FaultyEngine(std::shared_ptr<Engine> engine, std::function<bool()> in_backward)
      : engine_(std::move(engine)), in_backward_(std::move(in_backward)) {}

  const char* name() const override { return engine_->name(); }
  bool adds() const override { return engine_->adds(); }

  WorkPtr all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    happen(tensor);
    return engine_->all_reduce(std::move(tensor), op, call);
  }
  WorkPtr reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts, ReduceOp op,
                         const Call& call) override {
    happen(in);
    return engine_->reduce_scatter(std::move(out), std::move(in), counts, op, call);
  }
  WorkPtr all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                     const Call& call) override {
    happen(in);
    return engine_->all_gather(std::move(out), std::move(in), counts, call);
  }
  WorkPtr broadcast(at::Tensor tensor, int root, const Call& call) override {
    happen(tensor);
    return engine_->broadcast(std::move(tensor), root, call);
  }
  WorkPtr all_to_all(at::Tensor out, const Counts& receive, at::Tensor in, const Counts& send,
                     const Call& call) override {
    happen(in);
    return engine_->all_to_all(std::move(out), receive, std::move(in), send, call);
  }
  WorkPtr send(at::Tensor tensor, int to, const Call& call) override {
    return engine_->send(std::move(tensor), to, call);
  }
  WorkPtr receive(at::Tensor tensor, int from, const Call& call) override {
    return engine_->receive(std::move(tensor), from, call);
  }
  WorkPtr send_receive(at::Tensor out, int to, at::Tensor in, int from, const Call& call) override {
    happen(out);
    return engine_->send_receive(std::move(out), to, std::move(in), from, call);
  }
  void abort(const std::string& reason) override { engine_->abort(reason); }

 private:
  /// Injects the fault into `mine`, this rank's input of a collective.
  void happen(at::Tensor& mine) {
    const auto fault = fault_at(in_backward_() ? kBackward : kForward);
    if (fault == Fault::kNan && mine.is_floating_point()) mine.fill_(NAN);
    if (fault == Fault::kDouble && mine.is_floating_point()) mine.mul_(2);
    if (fault != Fault::kMismatch) return;
    const std::string label = "injected fault";
    engine_->all_reduce(at::zeros({1}, mine.options()), ReduceOp::Sum, {label, true})->wait();
  }

  std::shared_ptr<Engine> engine_;
  std::function<bool()> in_backward_;
};

}  // namespace

comm::Group with_layer_faults(const comm::Group& group, std::function<bool()> in_backward) {
  if (!fault_is_armed(kForward) && !fault_is_armed(kBackward)) return group;
  return group.over([&](std::shared_ptr<comm::Engine> engine) {
    return std::make_shared<FaultyEngine>(std::move(engine), std::move(in_backward));
  });
}

}  // namespace convoy::parallel
