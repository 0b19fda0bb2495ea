#include "convoy/parallel/program/counts.h"

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/program/most_cost.h"

namespace convoy::parallel {

namespace {

constexpr std::pair<const char*, double BlockCounts::*> kFields[] = {
    {"forward", &BlockCounts::forward}, {"backward", &BlockCounts::backward},
    {"weight", &BlockCounts::weight},   {"kept", &BlockCounts::kept},
    {"put_off", &BlockCounts::put_off}, {"returned", &BlockCounts::returned},
    {"send", &BlockCounts::send},       {"send_grad", &BlockCounts::send_grad},
    {"sent", &BlockCounts::sent},       {"sent_grad", &BlockCounts::sent_grad}};

/// Number of fields that a file must have, and may have.
constexpr size_t kRequired = 5, kAllowed = 8;

std::vector<std::string> field_names(size_t number) {
  std::vector<std::string> out;
  for (size_t i = 0; i < number; ++i) out.emplace_back(kFields[i].first);
  return out;
}

BlockCounts block_from_file(const Json& block, const std::string& name, const std::string& file) {
  const auto refuse = [&](const std::string& what) {
    fail<UsageError>("parallel", "pipeline_costs = {}: block '{}' {}", file, name, what);
  };
  if (!block.is_object()) {
    refuse(fmt::format("has no numbers; expected {}", join(field_names(kRequired))));
  }
  BlockCounts out;
  for (const auto& [key, value] : block.items()) {
    const auto names = field_names(kAllowed);
    if (std::find(names.begin(), names.end(), key) == names.end()) {
      refuse(fmt::format("has '{}'; expected {}", key, join(names)));
    }
  }
  for (size_t i = 0; i < kAllowed; ++i) {
    const auto& [key, field] = kFields[i];
    const auto found = block.find(key);
    if (found == block.end() && i >= kRequired) continue;
    if (found == block.end()) refuse(fmt::format("has no '{}'", key));
    const double number = found->is_number() ? found->get<double>() : -1;
    if (!(number >= 0 && number <= kMostCost)) {
      refuse(fmt::format("has {} = {}; expected a number from 0 on, at most {:g}", key,
                         found->dump(), kMostCost));
    }
    out.*field = number;
  }
  if (out.weight > out.backward) {
    refuse(fmt::format("has weight = {}, more than backward = {}, which it is a part of",
                       out.weight, out.backward));
  }
  if (!block.contains("returned")) out.returned = out.kept;  // nothing is known to be saved
  return out;
}

}  // namespace

std::vector<BlockCounts> counts_of(const std::vector<BlockCost>& measured) {
  std::vector<BlockCounts> out;
  const auto bytes = [](int64_t number) { return static_cast<double>(number); };
  for (const auto& block : measured) {
    out.push_back({block.forward_seconds, block.backward_seconds, block.weight_seconds,
                   bytes(block.kept_bytes), bytes(block.put_off_bytes), bytes(block.returned_bytes),
                   bytes(block.sent_bytes), bytes(block.grad_bytes)});
  }
  return out;
}

Costs costs_of(const std::vector<BlockCounts>& counts) {
  Costs out;
  for (const auto& block : counts) {
    out.forward.push_back(block.forward);
    out.backward.push_back(block.backward);
    out.weight.push_back(block.weight);
    out.kept.push_back(block.kept);
    out.put_off.push_back(block.put_off);
    out.inputs.push_back(block.returned);
    out.sent_bytes.push_back(block.sent);
    out.grad_bytes.push_back(block.sent_grad);
    out.send.push_back(block.send);
    out.send_grad.push_back(block.send_grad);
  }
  return out;
}

Json to_json(const std::vector<BlockCounts>& counts) {
  Json out = Json::array();
  for (const auto& block : counts) {
    auto& numbers = out.emplace_back(Json::array());
    for (const auto& [key, field] : kFields) numbers.push_back(block.*field);
  }
  return out;
}

std::vector<BlockCounts> counts_from_json(const Json& json) {
  std::vector<BlockCounts> out;
  for (const auto& numbers : json) {
    auto& block = out.emplace_back();
    for (size_t i = 0; i < std::size(kFields); ++i) block.*kFields[i].second = numbers.at(i);
  }
  return out;
}

std::vector<BlockCounts> counts_from_file(const std::string& text, const std::string& file,
                                          const ModelDecl& model) {
  const auto json = parse_json(text, file);
  if (!json.is_object()) {
    fail<UsageError>("parallel", "pipeline_costs = {}: expected numbers by the name of a block",
                     file);
  }
  std::vector<std::string> names;
  for (const auto& block : model.blocks) names.push_back(block.name);
  for (const auto& [name, unused] : json.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    fail<UsageError>("parallel", "pipeline_costs = {}: this model has no block '{}'{}; it has {}",
                     file, name, did_you_mean(name, names), join(names));
  }
  std::vector<BlockCounts> out;
  for (const auto& name : names) {
    if (!json.contains(name)) {
      fail<UsageError>("parallel", "pipeline_costs = {} has nothing of block '{}'", file, name);
    }
    out.push_back(block_from_file(json.at(name), name, file));
  }
  return out;
}

}  // namespace convoy::parallel
