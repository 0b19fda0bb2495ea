#include "convoy/comm/engine.h"

#include <ATen/core/grad_mode.h>

namespace convoy::comm {

namespace {

class ThenWork : public Work {
 public:
  ThenWork(std::shared_ptr<Work> work, std::function<void()> finish)
      : work_(std::move(work)), finish_(std::move(finish)) {}

  void wait() override {
    work_->wait();
    at::NoGradGuard no_grad;
    finish_();
  }
  bool done() const override { return work_->done(); }

 private:
  std::shared_ptr<Work> work_;
  std::function<void()> finish_;
};

}  // namespace

std::shared_ptr<Work> Engine::send_receive(at::Tensor out, int to, at::Tensor in, int from,
                                           const Call& call) {
  auto received = receive(std::move(in), from, call);  // first: it may be what the other waits for
  auto sent = send(std::move(out), to, call);
  return then(std::move(received), [sent] { sent->wait(); });
}

std::shared_ptr<Work> then(std::shared_ptr<Work> work, std::function<void()> finish) {
  return std::make_shared<ThenWork>(std::move(work), std::move(finish));
}

}  // namespace convoy::comm
