#include "convoy/wrappers/gradient_reducer.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <mutex>
#include <set>

#include "convoy/base/error.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/broadcast_together.h"
#include "convoy/parallel/layout.h"

namespace convoy::wrappers {

struct GradientReducer::Impl {
  struct Bucket {
    std::vector<at::Tensor> params;
    std::vector<at::Tensor> views;  // of `flat`, one per parameter
    at::Tensor flat;
    int64_t waiting = 0;
    comm::Group::Handle handle;
  };

  comm::Group group;
  std::vector<at::Tensor> buffers;
  std::vector<Bucket> buckets;  // last parameters first: about the order of backward
  size_t next = 0;              // buckets start in order, so that all ranks agree
  bool sync = true;
  bool backward_under_way = false;

  std::mutex mutex;  // hooks run on one thread per device

  void ready(size_t index, const std::weak_ptr<Impl>& self) {
    std::lock_guard lock(mutex);
    if (!sync || group.size() == 1) return;
    if (!backward_under_way) begin(self);
    auto& bucket = buckets[index];
    if (--bucket.waiting == 0) start_full();
  }

  void begin(const std::weak_ptr<Impl>& self) {
    backward_under_way = true;
    next = 0;
    for (auto& bucket : buckets) bucket.waiting = static_cast<int64_t>(bucket.params.size());
    torch::autograd::Engine::get_default_engine().queue_callback([self] {
      if (auto here = self.lock()) here->finish();
    });
  }

  /// Completes the collectives of a backward that threw, and drops their results.
  void give_up() {
    if (backward_under_way) complete();
  }

  /// Starts the remaining collectives, and waits for all.
  void complete() {
    backward_under_way = false;
    while (next < buckets.size()) start(next++);
    for (auto& bucket : buckets) bucket.handle.wait();
  }

  void start_full() {
    while (next < buckets.size() && buckets[next].waiting <= 0) start(next++);
  }

  void start(size_t index) {
    at::NoGradGuard no_grad;
    auto& bucket = buckets[index];
    for (size_t i = 0; i < bucket.params.size(); ++i) {
      auto& grad = bucket.params[i].mutable_grad();
      if (!grad.defined()) {
        bucket.views[i].zero_();
      } else if (grad.data_ptr() != bucket.views[i].data_ptr()) {
        bucket.views[i].copy_(grad);
      }
      grad = bucket.views[i];
    }
    bucket.handle = group.start_all_reduce(bucket.flat, comm::ReduceOp::Sum,
                                           fmt::format("reduce gradients, bucket {}", index));
  }

  void finish() {
    complete();
    at::NoGradGuard no_grad;
    for (auto& bucket : buckets) bucket.flat.div_(group.size());
  }
};

namespace {

class ReadyHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit ReadyHook(std::function<void()> call) : call_(std::move(call)) {}
  void operator()(const torch::autograd::Variable&) override { call_(); }

 private:
  std::function<void()> call_;
};

/// Returns a module's parameters and buffers, one entry each.
std::vector<std::string> describe(const torch::nn::Module& module) {
  std::vector<std::string> out;
  auto add = [&](const char* kind, const auto& named) {
    for (const auto& item : named) {
      const at::Tensor& tensor = item.value();
      out.push_back(fmt::format("{} '{}' [{}] of {}{}", kind, item.key(),
                                fmt::join(tensor.sizes(), ", "), tensor.dtype().name(),
                                tensor.requires_grad() ? "" : " without gradient"));
    }
  };
  add("parameter", module.named_parameters());
  add("buffer", module.named_buffers());
  return out;
}

}  // namespace

GradientReducer::GradientReducer(torch::nn::Module& module, const comm::Group& group,
                                 int64_t bucket_bytes)
    : impl_(std::make_shared<Impl>()) {
  at::NoGradGuard no_grad;
  impl_->group = group;
  impl_->buffers = module.buffers();
  comm::check_agreement(group, describe(module), "module");
  for (auto& param : module.parameters()) group.broadcast(param.data(), 0, "broadcast weights");
  auto params = module.parameters();
  std::reverse(params.begin(), params.end());
  parallel::BucketCutter cutter(bucket_bytes);
  std::set<const void*> known;  // a submodule registered twice lists its parameters twice
  for (const auto& param : params) {
    if (!param.requires_grad() || !known.insert(param.unsafeGetTensorImpl()).second) continue;
    const bool other_kind =
        !impl_->buckets.empty() &&
        (!impl_->buckets.back().params[0].options().type_equal(param.options()) ||
         impl_->buckets.back().params[0].device() != param.device());
    if (cutter.begins(static_cast<int64_t>(param.nbytes()), other_kind)) {
      impl_->buckets.emplace_back();
    }
    impl_->buckets.back().params.push_back(param);
  }
  for (size_t b = 0; b < impl_->buckets.size(); ++b) {
    auto& bucket = impl_->buckets[b];
    int64_t count = 0;
    for (const auto& param : bucket.params) count += param.numel();
    bucket.flat = at::zeros({count}, bucket.params[0].options());
    int64_t offset = 0;
    std::weak_ptr<Impl> self = impl_;
    for (const auto& param : bucket.params) {
      // No view to autograd: optimizers may detach or zero gradients in place.
      bucket.views.push_back(
          bucket.flat.narrow(0, offset, param.numel()).view(param.sizes()).variable_data());
      offset += param.numel();
      torch::autograd::impl::set_post_acc_grad_hooks(param, std::make_unique<ReadyHook>([self, b] {
                                                       if (auto here = self.lock())
                                                         here->ready(b, self);
                                                     }));
    }
  }
}

GradientReducer::~GradientReducer() = default;

void GradientReducer::before_forward() {
  at::NoGradGuard no_grad;
  impl_->give_up();
  comm::broadcast_together(impl_->group, impl_->buffers, 0, "broadcast buffers");
}

GradientReducer::NoSync GradientReducer::no_sync() {
  return NoSync(&impl_->sync);
}

}  // namespace convoy::wrappers
