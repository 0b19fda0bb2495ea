#include "convoy/comm/staged_engine.h"

#include <ATen/Functions.h>

namespace convoy::comm {

namespace {

class StagedEngine : public Engine {
 public:
  StagedEngine(std::shared_ptr<Engine> engine, at::Device device)
      : engine_(std::move(engine)), device_(device) {}

  const char* name() const override { return engine_->name(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op, const Call& call) override {
    return in_place(tensor, [&](at::Tensor t) { return engine_->all_reduce(t, op, call); });
  }

  std::shared_ptr<Work> reduce_scatter(at::Tensor out, at::Tensor in, const Counts& counts,
                                       ReduceOp op, const Call& call) override {
    return into(out, in, [&](at::Tensor o, at::Tensor i) {
      return engine_->reduce_scatter(o, i, counts, op, call);
    });
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in, const Counts& counts,
                                   const Call& call) override {
    return into(out, in, [&](at::Tensor o, at::Tensor i) {
      return engine_->all_gather(o, i, counts, call);
    });
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const Call& call) override {
    return in_place(tensor, [&](at::Tensor t) { return engine_->broadcast(t, root, call); });
  }

  std::shared_ptr<Work> all_to_all(at::Tensor out, const Counts& receive, at::Tensor in,
                                   const Counts& send, const Call& call) override {
    return into(out, in, [&](at::Tensor o, at::Tensor i) {
      return engine_->all_to_all(o, receive, i, send, call);
    });
  }

  std::shared_ptr<Work> send(at::Tensor tensor, int to, const Call& call) override {
    auto copy = tensor.to(device_);
    return then(engine_->send(copy, to, call), [copy] {});
  }

  std::shared_ptr<Work> receive(at::Tensor tensor, int from, const Call& call) override {
    return in_place(tensor, [&](at::Tensor t) { return engine_->receive(t, from, call); });
  }

  void abort(const std::string& reason) override { engine_->abort(reason); }

 private:
  bool is_home(const at::Tensor& tensor) const { return tensor.device().type() == device_.type(); }

  template <class Start>
  std::shared_ptr<Work> in_place(at::Tensor tensor, const Start& start) {
    if (is_home(tensor)) return start(tensor);
    auto copy = tensor.to(device_);
    return then(start(copy), [copy, tensor]() mutable { tensor.copy_(copy); });
  }

  template <class Start>
  std::shared_ptr<Work> into(at::Tensor out, at::Tensor in, const Start& start) {
    if (is_home(out) && is_home(in)) return start(out, in);
    auto source = in.to(device_);
    auto copy = at::empty(out.sizes(), out.options().device(device_));
    return then(start(copy, source), [copy, source, out]() mutable { out.copy_(copy); });
  }

  std::shared_ptr<Engine> engine_;
  at::Device device_;
};

}  // namespace

std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> engine, at::Device device) {
  return std::make_shared<StagedEngine>(std::move(engine), device);
}

}  // namespace convoy::comm
