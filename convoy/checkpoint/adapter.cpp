#include "convoy/checkpoint/adapter.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/nn/declare.h"
#include "convoy/nn/layers/lora.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

using parallel::State;

namespace {

std::string module_of(const nn::ParamSpec& spec) {
  if (!spec.name.ends_with(kWeightEnd)) return "";
  return spec.name.substr(0, spec.name.size() - kWeightEnd.size());
}

bool has_one_of(const std::vector<std::string>& parts, const std::string& name) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return name.find(part) != std::string::npos; });
}

/// Whether a weight is used by nn::linear, so that it can have an adapter: not embeddings, which
/// are looked up, not the output matrix, which the loss reads, and not experts.
bool takes_adapter(const nn::ParamSpec& spec, const models::WeightLayout& layout) {
  return !has_one_of(layout.no_modules, spec.name) && spec.shape.size() == 2 &&
         spec.read_in_backward && spec.trainable && !spec.row_reads && spec.name != layout.head &&
         !module_of(spec).empty();
}

std::string last_of(const std::string& module) {
  return module.substr(module.rfind('.') + 1);
}

/// Names of `modules` as PEFT writes them: their last parts, where these match no other module.
/// Other parts of a wrapper have modules with the same last parts.
std::vector<std::string> names_for_peft(const std::vector<std::string>& modules,
                                        const std::vector<std::string>& all,
                                        const models::WeightLayout& layout) {
  if (!layout.others.empty()) return modules;
  std::set<std::string> ends;
  for (const auto& module : modules) ends.insert(last_of(module));
  const auto meant = std::count_if(
      all.begin(), all.end(), [&](const auto& module) { return ends.contains(last_of(module)); });
  if (meant == std::ssize(modules)) return {ends.begin(), ends.end()};
  return modules;
}

void check_targets(const AdapterConfig& config, const std::vector<std::string>& found,
                   const std::vector<std::string>& all, const models::WeightLayout& layout,
                   bool strict) {
  std::vector<std::string> missing;
  for (const auto& target : config.targets) {
    const bool there = config.is_regex || target == kAllLinear
                           ? !found.empty()
                           : std::any_of(found.begin(), found.end(), [&](const auto& module) {
                               return ends_with_module(module, target);
                             });
    if (!there) missing.push_back(target);
  }
  if (missing.empty() || (!strict && !found.empty())) return;
  std::set<std::string> known;
  for (const auto& module : all) known.insert(last_of(module));
  const std::vector<std::string> names(known.begin(), known.end());
  const bool is_head = layout.head == missing[0] + std::string(kWeightEnd);
  fail<UsageError>(
      "lora", "no matrix of the model is named {}; expected some of {}{}", missing[0], join(names),
      is_head ? "; the output matrix has no adapter: try --modules_to_save " + missing[0]
              : did_you_mean(missing[0], names));
}

/// Freezes all parameters but those of modules_to_save.
void freeze(const std::vector<nn::ParamPtr>& params, const nn::BlockList& blocks,
            const AdapterConfig& config, const models::WeightLayout& layout, bool strict) {
  std::map<const nn::Param*, int> readers;
  for (const auto& block : blocks) {
    for (const auto& param : block->params()) ++readers[param.get()];
  }
  std::set<std::string> saved;
  for (const auto& param : params) {
    const auto& name = param->spec().name;
    if (!config.is_saved(name)) {
      param->freeze();
      continue;
    }
    if (has_one_of(layout.renamed, name)) {
      fail<UsageError>("lora",
                       "modules_to_save has {}, for which PEFT has no name: transformers holds the "
                       "experts of a layer as one tensor; try without it, or train all weights",
                       module_of(param->spec()));
    }
    if (readers[param.get()] > 1) {
      fail<UsageError>("lora",
                       "modules_to_save has {}, which is tied to another module; try without it, "
                       "or tie_word_embeddings = false",
                       module_of(param->spec()));
    }
    for (const auto& module : config.modules_to_save) {
      if (lies_in_module(name, module)) saved.insert(module);
    }
  }
  for (const auto& module : config.modules_to_save) {
    if (!strict || saved.contains(module)) continue;
    fail<UsageError>("lora", "modules_to_save = {} matches nothing in the model", module);
  }
}

}  // namespace

nn::BlockList adapted(const nn::BlockList& blocks, AdapterConfig& config,
                      const models::WeightLayout& layout, bool strict) {
  const auto params = nn::params_of(blocks);
  std::vector<std::string> all, found;
  std::map<const nn::Param*, std::shared_ptr<nn::LowRank>> adapters;
  for (const auto& param : params) {
    const auto& spec = param->spec();
    if (!takes_adapter(spec, layout)) continue;
    const auto module = module_of(spec);
    all.push_back(module);
    if (!config.is_target(module)) continue;
    found.push_back(module);
    config.fan_in_fan_out = config.fan_in_fan_out || spec.in_first;
    const nn::LoraOptions options{config.rank_of(module), config.scale_of(module), config.dropout};
    adapters[param.get()] = std::make_shared<nn::LowRank>(spec, options);
    param->set_adapter(adapters[param.get()]);
  }
  check_targets(config, found, all, layout, strict);
  freeze(params, blocks, config, layout, strict);
  if (!layout.others.empty()) config.is_regex = false;  // PEFT would find more than the text part
  if (!config.is_regex) config.targets = names_for_peft(found, all, layout);
  nn::BlockList out;
  for (const auto& block : blocks) {
    std::vector<std::shared_ptr<nn::LowRank>> own;
    for (const auto& param : block->params()) {
      if (const auto adapter = adapters.find(param.get()); adapter != adapters.end()) {
        own.push_back(adapter->second);
      }
    }
    out.push_back(nn::with_adapters(block, std::move(own)));
  }
  return out;
}

bool is_of_adapter(const std::string& name) {
  return name.ends_with(kLoraA) || name.ends_with(kLoraB);
}

bool is_adapted(const State& state) {
  return std::any_of(state.begin(), state.end(),
                     [](const auto& tensor) { return is_of_adapter(tensor.name); });
}

State saved_part(State state) {
  if (!is_adapted(state)) return state;
  std::erase_if(state, [](const auto& tensor) { return tensor.is_buffer || !tensor.trained; });
  for (auto& tensor : state) tensor.name = std::string(kPeftPrefix) + tensor.name;
  return state;
}

State base_part(State state) {
  std::erase_if(state, [](const auto& tensor) { return is_of_adapter(tensor.name); });
  return state;
}

const char* weights_file(const State& saved) {
  return is_adapted(saved) ? formats::kAdapterFile : formats::kWeightsFile;
}

}  // namespace convoy::checkpoint
