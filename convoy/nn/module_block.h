#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "convoy/nn/block.h"

namespace convoy::nn {

/// A user's own torch::nn::Module as one block. Its parameters move into flat buffers; autograd's
/// own accumulation fills their gradients.
class ModuleBlock : public Block {
 public:
  using Forward = std::function<Bundle(const Bundle& in, const Context& context)>;

  /// `forward` runs the module on a batch and returns at least `loss`, the *sum* over the batch's
  /// targets, and `count`, their number. `cost_key`: the same for modules that cost the same
  /// (Block::cost_key); "": it is like no other.
  ModuleBlock(std::shared_ptr<torch::nn::Module> module, Forward forward,
              std::string name = "model", std::string cost_key = "");

  Bundle forward(const Bundle& in, const Context& context) override;
  /// A module's own dropout draws anew each time, and running statistics move.
  bool repeatable() const override { return false; }
  std::string cost_key() const override;
  std::vector<NamedTensor> buffers() override;
  const std::shared_ptr<torch::nn::Module>& module() const { return module_; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  Forward forward_;
  std::string likeness_;
};

/// Shorthand: `module_model(std::make_shared<Net>(), [](Net& net, const Bundle& batch) {...})`.
template <class Module, class F>
BlockList module_model(std::shared_ptr<Module> module, F forward) {
  static_assert(std::is_base_of_v<torch::nn::Module, Module>,
                "give the module itself, not DataParallel or DistributedDataParallel of it: the "
                "Trainer spreads the work");
  return {std::make_shared<ModuleBlock>(
      module,
      [module, forward](const Bundle& in, const Context&) { return forward(*module, in); })};
}

/// Remembers that `wrapper` ("DistributedDataParallel", ...) spreads this module's work already,
/// for as long as the returned mark lives. Throws UsageError when another wrapper does, or there is
/// no module.
std::shared_ptr<void> mark_wrapped(const torch::nn::Module* module, const std::string& wrapper);

/// Throws UsageError when a wrapper spreads the work of this module: a second one would reduce its
/// gradients twice.
void check_not_wrapped(const torch::nn::Module& module);

}  // namespace convoy::nn
