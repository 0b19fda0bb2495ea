#include <fmt/format.h>

#include <map>
#include <string_view>

#include "convoy/base/text.h"
#include "convoy/parallel/knobs.h"
#include "convoy/parallel/mesh.h"

// Values of a Parallelism as knobs write them: text, TOML, flags, JSON.
namespace convoy::parallel {

namespace {

constexpr const char* kOfRanks = "parallel";  // section of all knobs but those of the batch

const Parallelism& usual() {
  static const Parallelism kUsual;
  return kUsual;
}

std::string plain(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

bool is_number(const std::string& text) {
  return text == "true" || text == "false" || text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

bool Knob::is_written(const Parallelism& parallelism) const {
  if (get == nullptr || (has_effect != nullptr && !has_effect(parallelism))) return false;
  return decided != Decided::FromAsked || get(parallelism) != get(usual());
}

bool Knob::is_reset(const Parallelism& parallelism) const {
  const bool in_vain = has_effect != nullptr && !has_effect(parallelism);
  return in_vain || decided == Decided::ByPlan;
}

std::string Parallelism::to_text() const {
  auto out = mesh().to_text();
  for (const auto& knob : knobs()) {
    if (!knob.is_written(*this)) continue;
    const auto value = knob.get(*this);
    const auto label = knob.label != nullptr        ? knob.label(*this)
                       : value == knob.get(usual()) ? ""
                       : value.is_boolean()         ? std::string(knob.name)
                                                    : fmt::format("{} {}", knob.name, plain(value));
    if (!label.empty()) out += ", " + label;
  }
  return out + fmt::format(", {} x {}", micro_batches, plural(rows, "row"));
}

std::string to_toml(const Parallelism& parallelism) {
  std::map<std::string, std::string> sections;
  for (const auto& knob : knobs()) {
    if (!knob.is_written(parallelism)) continue;
    const auto value = plain(knob.get(parallelism));
    sections[knob.section] +=
        fmt::format("{} = {}\n", knob.name, is_number(value) ? value : toml_text(value));
  }
  return fmt::format("[train]\n{}\n[parallel]\n{}\n", sections["train"], sections[kOfRanks]);
}

std::vector<std::string> to_flags(const Parallelism& parallelism) {
  std::vector<std::string> train, parallel;
  for (const auto& knob : knobs()) {
    if (!knob.is_written(parallelism)) continue;
    auto& flags = std::string_view(knob.section) == kOfRanks ? parallel : train;
    flags.push_back(fmt::format("--{}={}", knob.key(), plain(knob.get(parallelism))));
  }
  train.insert(train.end(), parallel.begin(), parallel.end());
  return train;
}

Json to_json(const Parallelism& parallelism) {
  Json out;
  for (const auto& knob : knobs()) {
    if (knob.get != nullptr) out[knob.name] = knob.get(parallelism);
  }
  return out;
}

}  // namespace convoy::parallel
