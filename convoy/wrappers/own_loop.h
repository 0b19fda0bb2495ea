#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/module_block.h"
#include "convoy/wrappers/gradient_reducer.h"
#include "convoy/wrappers/module_replicas.h"

// Wrappers for programs with a training loop of their own.
namespace convoy::wrappers {

/// Returns the group of all ranks of this job, joined at the first call: what the launcher's
/// environment says (convoy launch, torchrun, SLURM, MPI), or one rank without a launcher.
const comm::Group& world();

/// Runs `function` in `num_ranks` fresh processes of this program that find each other through
/// world(). Throws CommunicationError with the report of the first rank that failed. What the
/// program does before spawn() happens in every rank too: call it early in main().
void spawn(int num_ranks, const std::function<void()>& function);

/// A module whose work a wrapper spreads; it cannot be wrapped again meanwhile.
template <class Module>
class WrappedModule {
 public:
  Module* operator->() { return module_.get(); }
  const std::shared_ptr<Module>& module() const { return module_; }

 protected:
  WrappedModule(std::shared_ptr<Module> module, const char* wrapper)
      : module_(std::move(module)), mark_(nn::mark_wrapped(module_.get(), wrapper)) {}

  std::shared_ptr<Module> module_;

 private:
  std::shared_ptr<void> mark_;
};

/// Averages a module's gradients over the ranks while backward runs, as PyTorch's wrapper of the
/// same name does. Weights and buffers start equal to rank 0's; buffers follow it at each forward.
///
///     convoy::DistributedDataParallel<Net> model(std::make_shared<Net>());
///     auto loss = model.forward(x).mean();
///     loss.backward();      // gradients are averaged when this returns
///     optimizer.step();
template <class Module>
class DistributedDataParallel : public WrappedModule<Module> {
 public:
  explicit DistributedDataParallel(std::shared_ptr<Module> module,
                                   const comm::Group& group = world(),
                                   int64_t bucket_bytes = 25 << 20)
      : WrappedModule<Module>(std::move(module), "DistributedDataParallel"),
        reducer_(*this->module_, group, bucket_bytes) {}

  template <class... Args>
  auto forward(Args&&... args) {
    reducer_.before_forward();
    return this->module_->forward(std::forward<Args>(args)...);
  }

  /// Returns a guard: while it lives, backward adds up gradients on this rank only.
  [[nodiscard]] GradientReducer::NoSync no_sync() { return reducer_.no_sync(); }

 private:
  GradientReducer reducer_;
};

/// Splits the first dimension of the input over replicas of the module, a thread each, in one
/// process; gradients arrive in the module itself. The module must be a torch::nn::Cloneable.
/// DistributedDataParallel is usually faster and spans hosts.
template <class Module>
class DataParallel : public WrappedModule<Module> {
 public:
  /// `devices`: one replica each; the first holds the module. {CPU, CPU}: two threads.
  DataParallel(std::shared_ptr<Module> module, std::vector<at::Device> devices)
      : WrappedModule<Module>(std::move(module), "DataParallel"),
        replicas_(this->module_, std::move(devices),
                  [](torch::nn::Module& replica, const at::Tensor& input) {
                    return dynamic_cast<Module&>(replica).forward(input);
                  }) {}

  at::Tensor forward(const at::Tensor& input) { return replicas_.forward(input); }

 private:
  ModuleReplicas replicas_;
};

}  // namespace convoy::wrappers
