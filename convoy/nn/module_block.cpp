#include "convoy/nn/module_block.h"

#include <ATen/autocast_mode.h>

#include <map>
#include <mutex>
#include <set>

#include "convoy/base/error.h"

namespace convoy::nn {

namespace {

/// Runs opaque modules in `dtype` by torch's autocast; does nothing in fp32.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType dtype)
      : device_(device), active_(dtype != at::kFloat) {
    if (!active_) return;
    before_ = at::autocast::is_autocast_enabled(device);
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, dtype);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
  }

 private:
  at::DeviceType device_;
  bool active_;
  bool before_ = false;
};

struct Marks {
  std::mutex mutex;
  std::map<const torch::nn::Module*, std::string> wrapper_of;
};

Marks& marks() {
  static Marks all;
  return all;
}

}  // namespace

ModuleBlock::ModuleBlock(std::shared_ptr<torch::nn::Module> module, Forward forward,
                         std::string name, std::string cost_key)
    : Block(std::move(name)),
      module_(std::move(module)),
      forward_(std::move(forward)),
      likeness_(std::move(cost_key)) {
  if (!module_) fail<UsageError>("models", "the module is null; expected a torch::nn::Module");
  check_not_wrapped(*module_);
  std::set<const void*> known;  // a submodule registered twice lists its parameters twice
  for (const auto& item : module_->named_parameters()) {
    const auto& leaf = item.value();
    if (!known.insert(leaf.unsafeGetTensorImpl()).second) continue;
    if (leaf.scalar_type() != at::kFloat) {
      fail<UsageError>("models",
                       "parameter {} of the module is {}; expected fp32; try module->to("
                       "torch::kFloat)",
                       item.key(), c10::toString(leaf.scalar_type()));
    }
    ParamSpec spec{item.key(), leaf.sizes().vec(), Init::given()};
    spec.decay = leaf.dim() > 1;
    spec.trainable = leaf.requires_grad();
    declare(std::move(spec), leaf);
  }
}

Bundle ModuleBlock::forward(const Bundle& in, const Context& context) {
  module_->train(context.mode == Mode::Train);
  auto device = params().empty() ? at::kCPU : params()[0]->value().device().type();
  Autocast autocast(device, context.compute_dtype);
  return forward_(in, context);
}

std::string ModuleBlock::cost_key() const {
  return likeness_.empty() ? Block::cost_key() : likeness_;
}

std::vector<NamedTensor> ModuleBlock::buffers() {
  std::vector<NamedTensor> out;
  for (const auto& item : module_->named_buffers()) out.push_back({item.key(), item.value()});
  return out;
}

std::shared_ptr<void> mark_wrapped(const torch::nn::Module* module, const std::string& wrapper) {
  if (module == nullptr) fail<UsageError>("models", "{} got a null module", wrapper);
  check_not_wrapped(*module);
  const auto* key = module;
  std::lock_guard lock(marks().mutex);
  marks().wrapper_of[key] = wrapper;
  return {nullptr, [key](void*) {
            std::lock_guard lock(marks().mutex);
            marks().wrapper_of.erase(key);
          }};
}

void check_not_wrapped(const torch::nn::Module& module) {
  std::lock_guard lock(marks().mutex);
  auto found = marks().wrapper_of.find(&module);
  if (found == marks().wrapper_of.end()) return;
  fail<UsageError>(
      "models",
      "the module is wrapped in {} already; its gradients would be reduced twice; give "
      "the module itself, unwrapped: the Trainer spreads the work",
      found->second);
}

}  // namespace convoy::nn
