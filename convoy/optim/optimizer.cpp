#include "convoy/optim/optimizer.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/optim/built_in_optimizers.h"

namespace convoy::optim {

namespace {

/// Returns all optimizers that there are. Names are Hugging Face's (transformers' OptimizerNames),
/// where it has one.
std::vector<OptimizerEntry>& optimizers() {
  static std::vector<OptimizerEntry> all{
      {"adamw_torch", "AdamW", true, make_adamw},
      {"adamw_torch_fused", "the same", true, make_adamw},
      {"adamw_bf16", "AdamW with bf16 moments", true, make_adamw_bf16},
      {"lion_32bit", "Lion", false, make_lion},
  };
  return all;
}

}  // namespace

int64_t Optimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const auto& state : states()) bytes += static_cast<int64_t>(at::elementSize(state.dtype));
  return bytes;
}

void Optimizer::update_all(const std::vector<FlatRange>& stretches,
                           const StepNumbers& numbers) const {
  for (const auto& stretch : stretches) update(stretch, numbers);
}

void Optimizer::idle(const FlatRange&, const at::Tensor&, const at::Tensor&) const {
  internal_check(false, "optim", "{} is never idle", name());
}

OptimizerPtr make_optimizer(const std::string& name, const Settings& settings) {
  const auto& all = optimizers();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& entry) { return entry.name == name; });
  if (found == all.end()) {
    fail<UsageError>("train", "there is no optimizer '{}'; expected one of {}{}", name,
                     join(optimizer_names()), did_you_mean(name, optimizer_names()));
  }
  return found->make(settings);
}

void add_optimizer(OptimizerEntry entry) {
  for (const auto& name : optimizer_names()) {
    internal_check(name != entry.name, "optim", "there is an optimizer {} already", name);
  }
  optimizers().push_back(std::move(entry));
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> out;
  for (const auto& entry : optimizers()) out.emplace_back(entry.name);
  return out;
}

std::vector<std::string> optimizers_with_epsilon() {
  std::vector<std::string> out;
  for (const auto& entry : optimizers()) {
    if (entry.reads_epsilon) out.emplace_back(entry.name);
  }
  return out;
}

std::string optimizer_help() {
  std::vector<std::string> out;
  for (const auto& entry : optimizers())
    out.push_back(fmt::format("{} ({})", entry.name, entry.what));
  return join(out);
}

}  // namespace convoy::optim
