#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <vector>

namespace convoy::parallel {
class Workers;
}

namespace convoy::wrappers {

/// Copies of a module that share its weights (on its own device) or follow them (on others), each
/// run by a thread of its own.
class ModuleReplicas {
 public:
  using Forward = std::function<at::Tensor(torch::nn::Module& replica, const at::Tensor& input)>;

  /// Throws UsageError when the module cannot be cloned.
  ModuleReplicas(std::shared_ptr<torch::nn::Module> module, std::vector<at::Device> devices,
                 Forward forward);
  ~ModuleReplicas();

  /// Splits `input` [rows, ...] as evenly as it divides and joins the outputs [rows, ...].
  at::Tensor forward(const at::Tensor& input);

 private:
  void follow_weights();
  void collect_gradients(size_t num_used);

  std::shared_ptr<torch::nn::Module> module_;
  std::vector<at::Device> devices_;
  Forward forward_;
  std::vector<std::shared_ptr<torch::nn::Module>> replicas_;
  std::unique_ptr<parallel::Workers> workers_;
};

}  // namespace convoy::wrappers
