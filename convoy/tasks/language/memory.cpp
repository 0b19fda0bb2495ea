#include "convoy/tasks/language/memory.h"

#include <set>

#include "convoy/base/text.h"
#include "convoy/train/memory.h"

namespace convoy::tasks {

void check_memory(const models::CausalConfig& config, const train::ParallelArguments& parallel) {
  const auto blocks = config.make_blocks();
  double tables = 0, positions = 0, layers = 0;
  std::set<const nn::Param*> seen;
  for (const auto& block : blocks) {
    const bool outer = block == blocks.front() || block == blocks.back();
    for (const auto& param : block->params()) {
      if (!seen.insert(param.get()).second) continue;
      const bool of_ids = param->spec().shape[0] == config.num_ids();
      auto& part = !outer ? layers : of_ids ? tables : positions;
      part += static_cast<double>(param->spec().num_elements());
    }
  }
  const auto num_layers = static_cast<int64_t>(blocks.size()) - 2;
  train::check_memory({{fmt::format("a vocabulary of {} ids takes", human_count(config.num_ids())),
                        tables, "a tokenizer with fewer ids, or a narrower model"},
                       {fmt::format("{} positions take", human_count(config.max_length())),
                        positions, "fewer positions, or a narrower model"},
                       {fmt::format("{} layers take", human_count(num_layers)), layers,
                        "fewer or narrower layers"}},
                      parallel);
}

}  // namespace convoy::tasks
