#include "convoy/tasks/memory.h"

#include <set>

#include "convoy/base/text.h"

namespace convoy::tasks {

namespace {

// Measured: what a layer takes besides numbers, counted as parameters in training.
constexpr double kLayerParameters = 6e3;

std::vector<planner::MemoryPart> parts_of(const models::SessionConfig& model,
                                          const std::string& schema_file) {
  const auto d = static_cast<double>(model.d_model), inner = static_cast<double>(model.inner());
  std::vector<planner::MemoryPart> parts;
  double width = 0;
  bool continuous = false;
  for (const auto& feature : model.features) {
    if (feature.width > 0) width += static_cast<double>(model.dim_of(feature));
    continuous |= feature.is_number();
    if (!feature.categorical) continue;
    const auto dim = static_cast<double>(model.dim_of(feature));
    const bool is_item = feature.name == model.item_feature;
    width += dim;
    parts.push_back({fmt::format("feature '{}' has {} ids by {}: its embedding takes", feature.name,
                                 human_count(feature.cardinality), schema_file),
                     static_cast<double>(feature.cardinality) * dim,
                     fmt::format("as its max the largest id that occurs, ids numbered anew (convoy "
                                 "data sessions), or a smaller {}",
                                 is_item ? "item_embedding_dim" : "embedding_dim"),
                     is_item && model.item_reads().has_value()});
  }
  if (!model.weight_tying) {
    const auto ids = static_cast<double>(model.item().cardinality);
    parts.push_back({fmt::format("weight_tying = false: the output matrix of {} ids takes",
                                 human_count(model.item().cardinality)),
                     ids * (model.detects() ? static_cast<double>(model.dim_of(model.item())) : d),
                     "weight_tying = true"});
  }
  if (continuous) {
    width += model.continuous_projection > 0 ? static_cast<double>(model.continuous_projection) : d;
  }
  if (model.aggregation == "concat") {
    parts.push_back({fmt::format("d_model = {} of features {:.0f} wide: their projection takes",
                                 model.d_model, width),
                     width * d, "a smaller d_model, embedding_dim or continuous_projection"});
  }
  parts.push_back({fmt::format("max_length = {}: the table of positions takes", model.max_length),
                   static_cast<double>(model.num_positions()) * d, "a smaller max_length"});
  parts.push_back({fmt::format("n_layer = {} with d_model = {} and n_inner = {}: the layers take",
                               model.n_layer, model.d_model, model.inner()),
                   static_cast<double>(model.n_layer * (model.detects() ? 2 : 1)) *
                       (4 * d * d + 2 * d * inner + 9 * d + inner + kLayerParameters),
                   "a smaller n_layer, d_model or n_inner"});
  return parts;
}

}  // namespace

void check_memory(const models::SessionConfig& model, const std::string& schema_file,
                  const options::ParallelArguments& parallel) {
  planner::check_memory(parts_of(model, schema_file), parallel);
}

void check_memory(const models::LanguageModelConfig& config, const nn::BlockList& blocks,
                  const options::ParallelArguments& parallel,
                  const std::vector<planner::MemoryPart>& beside) {
  const auto num_layers = static_cast<int64_t>(blocks.size()) - 2;
  planner::MemoryPart tables{
      fmt::format("a vocabulary of {} ids takes", human_count(config.num_ids())), 0,
      "a tokenizer with fewer ids, or a narrower model"};
  planner::MemoryPart positions{fmt::format("{} positions take", human_count(config.max_length())),
                                0, "fewer positions, or a narrower model"};
  planner::MemoryPart layers{fmt::format("{} layers take", human_count(num_layers)), 0,
                             "fewer or narrower layers"};
  std::set<const nn::Param*> seen;
  for (const auto& block : blocks) {
    const bool outer = block == blocks.front() || block == blocks.back();
    for (const auto& param : block->params()) {
      if (!seen.insert(param.get()).second) continue;
      const bool of_ids = param->spec().shape[0] == config.num_ids();
      auto& part = !outer ? layers : of_ids ? tables : positions;
      (param->spec().trainable ? part.parameters : part.frozen) +=
          static_cast<double>(param->spec().num_elements());
    }
  }
  std::vector<planner::MemoryPart> parts{tables, positions, layers};
  parts.insert(parts.end(), beside.begin(), beside.end());
  planner::check_memory(parts, parallel);
}

}  // namespace convoy::tasks
