#include "convoy/nn/wrapped.h"

#include <map>
#include <mutex>

#include "convoy/base/error.h"

namespace convoy::nn {

namespace {

struct Marks {
  std::mutex mutex;
  std::map<const torch::nn::Module*, std::string> wrapper_of;
};

Marks& marks() {
  static Marks all;
  return all;
}

}  // namespace

std::shared_ptr<void> mark_wrapped(const torch::nn::Module* module, const std::string& wrapper) {
  if (module == nullptr) fail<UsageError>("nn", "{} got a null module", wrapper);
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
      "nn",
      "the module is wrapped in {} already; its gradients would be reduced twice; give "
      "the module itself, unwrapped: the Trainer spreads the work",
      found->second);
}

}  // namespace convoy::nn
