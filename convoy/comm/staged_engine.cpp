#include "convoy/comm/staged_engine.h"

#include <ATen/Functions.h>

namespace convoy::comm {

namespace {

/// Waits for the work on the copy, then copies back.
class StagedWork : public Work {
 public:
  StagedWork(std::shared_ptr<Work> work, at::Tensor copy, at::Tensor home)
      : work_(std::move(work)), copy_(std::move(copy)), home_(std::move(home)) {}

  void wait() override {
    work_->wait();
    at::NoGradGuard no_grad;
    home_.copy_(copy_);
  }

 private:
  std::shared_ptr<Work> work_;
  at::Tensor copy_, home_;
};

class StagedEngine : public Engine {
 public:
  StagedEngine(std::shared_ptr<Engine> engine, at::Device device)
      : engine_(std::move(engine)), device_(device) {}

  const char* name() const override { return engine_->name(); }

  std::shared_ptr<Work> all_reduce(at::Tensor tensor, ReduceOp op,
                                   const std::string& label) override {
    if (is_home(tensor)) return engine_->all_reduce(tensor, op, label);
    auto copy = tensor.to(device_);
    return std::make_shared<StagedWork>(engine_->all_reduce(copy, op, label), copy, tensor);
  }

  std::shared_ptr<Work> broadcast(at::Tensor tensor, int root, const std::string& label) override {
    if (is_home(tensor)) return engine_->broadcast(tensor, root, label);
    auto copy = tensor.to(device_);
    return std::make_shared<StagedWork>(engine_->broadcast(copy, root, label), copy, tensor);
  }

  std::shared_ptr<Work> all_gather(at::Tensor out, at::Tensor in,
                                   const std::string& label) override {
    if (is_home(out) && is_home(in)) return engine_->all_gather(out, in, label);
    auto copy = at::empty(out.sizes(), out.options().device(device_));
    auto work = engine_->all_gather(copy, in.to(device_), label);
    return std::make_shared<StagedWork>(std::move(work), copy, out);
  }

  void abort(const std::string& reason) override { engine_->abort(reason); }

 private:
  bool is_home(const at::Tensor& tensor) const { return tensor.device().type() == device_.type(); }

  std::shared_ptr<Engine> engine_;
  at::Device device_;
};

}  // namespace

std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> engine, at::Device device) {
  return std::make_shared<StagedEngine>(std::move(engine), device);
}

}  // namespace convoy::comm
