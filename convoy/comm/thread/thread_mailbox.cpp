#include "convoy/comm/thread/thread_mailbox.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "convoy/base/error.h"

namespace convoy::comm {

/// Point in the work that the calling thread has queued on a device, taken at construction.
class Moment {
 public:
  explicit Moment(at::Device device) : gpu_(device.type()), event_(device.type()), device_(device) {
    event_.record(gpu_.getStream(device));
  }
  /// Makes later work of the calling thread on `device` wait for this point.
  void precede(at::Device device) { event_.block(gpu_.getStream(device)); }
  void precede() { precede(device_); }

 private:
  c10::impl::VirtualGuardImpl gpu_;
  c10::Event event_;
  at::Device device_;
};

struct ThreadMailbox::Message {
  Message(at::Tensor values, std::string what)
      : tensor(std::move(values)), label(std::move(what)), computed(tensor.device()) {}

  at::Tensor tensor;
  std::string label;
  Moment computed;
  std::unique_ptr<Moment> copied;  // once the receiver has it
};

class ThreadMailbox::SendWork : public Work {
 public:
  SendWork(ThreadMailbox& box, std::shared_ptr<Message> message, int from, int to)
      : box_(box), message_(std::move(message)), from_(from), to_(to) {}

  void wait() override {
    Lock lock(box_.mutex_);
    box_.wait(lock, from_, to_, message_->label, [&] { return message_->copied != nullptr; });
    message_->copied->precede();  // the memory may be another's from here on
  }
  bool done() const override {
    const Lock lock(box_.mutex_);
    return message_->copied != nullptr;
  }

 private:
  ThreadMailbox& box_;
  std::shared_ptr<Message> message_;
  int from_, to_;
};

class ThreadMailbox::ReceiveWork : public Work {
 public:
  ReceiveWork(ThreadMailbox& box, at::Tensor tensor, int from, int to, std::string label)
      : box_(box), tensor_(std::move(tensor)), from_(from), to_(to), label_(std::move(label)) {}

  void wait() override { box_.copy(tensor_, from_, to_, label_); }

 private:
  ThreadMailbox& box_;
  at::Tensor tensor_;
  int from_, to_;
  std::string label_;
};

ThreadMailbox::ThreadMailbox(int size, std::chrono::milliseconds timeout, std::vector<int> names)
    : size_(size),
      timeout_(timeout),
      names_(std::move(names)),
      queues_(static_cast<size_t>(size * size)) {}

ThreadMailbox::~ThreadMailbox() = default;

std::shared_ptr<Work> ThreadMailbox::send(const at::Tensor& tensor, int from, int to,
                                          const std::string& label) {
  auto message = std::make_shared<Message>(tensor, label);
  {
    const Lock lock(mutex_);
    queue(from, to).push_back(message);
  }
  changed_.notify_all();
  return std::make_shared<SendWork>(*this, std::move(message), from, to);
}

std::shared_ptr<Work> ThreadMailbox::receive(const at::Tensor& tensor, int from, int to,
                                             const std::string& label) {
  return std::make_shared<ReceiveWork>(*this, tensor, from, to, label);
}

void ThreadMailbox::copy(at::Tensor to, int from, int rank, const std::string& label) {
  const at::NoGradGuard no_grad;
  std::shared_ptr<Message> message;
  {
    Lock lock(mutex_);
    auto& messages = queue(from, rank);
    wait(lock, rank, from, label, [&] { return !messages.empty(); });
    message = std::move(messages.front());
    messages.pop_front();
  }
  const auto& source = message->tensor;
  if (message->label != label || source.numel() != to.numel()) {
    abort(fmt::format("rank {} sends '{}' of {} elements, rank {} receives '{}' of {}", name(from),
                      message->label, source.numel(), name(rank), label, to.numel()));
    fail<CommunicationError>("comm", "{}", reason_);
  }
  // Torch copies on the source's device, and lets the other one wait.
  message->computed.precede(source.device());
  to.view({-1}).copy_(source.view({-1}), /*non_blocking=*/true);
  auto copied = std::make_unique<Moment>(source.device());
  {
    const Lock lock(mutex_);
    message->copied = std::move(copied);
  }
  changed_.notify_all();
}

template <class IsThere>
void ThreadMailbox::wait(Lock& lock, int rank, int other, const std::string& label,
                         const IsThere& is_there) {
  changed_.wait_for(lock, timeout_, [&] { return aborted_ || is_there(); });
  if (is_there()) return;
  if (aborted_) fail<CommunicationError>("comm", "'{}' was stopped: {}", label, reason_);
  fail<CommunicationError>("comm", "rank {} waited {} ms in '{}' for rank {}", name(rank),
                           timeout_.count(), label, name(other));
}

void ThreadMailbox::abort(const std::string& reason) {
  {
    const Lock lock(mutex_);
    if (aborted_) return;
    reason_ = reason;
    aborted_ = true;
  }
  changed_.notify_all();
}

}  // namespace convoy::comm
