#include "convoy/tasks/session/request_features.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/run.h"

namespace convoy::tasks {

namespace {

bool is_number(const std::string& text) {
  double number = 0;
  return parse_number(text, number);
}

/// Raw value as the column of the interactions has it: a whole number without a point.
std::string raw_value(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

}  // namespace

Ids ids_by_name(const prepare::ItemNames& names, int64_t count) {
  Ids out;
  for (int64_t id = 1; id <= count; ++id) out.try_emplace(names.raw_id(id), id);
  return out;
}

RequestFeatures::RequestFeatures(const std::filesystem::path& folder, models::SessionConfig config,
                                 const std::map<std::string, KnownItems>& known)
    : config_(std::move(config)),
      scales_(prepare::Scales::load(kept_file(folder, prepare::kScalesFile))) {
  for (const auto& feature : config_.features) {
    if (!feature.categorical || feature.name == config_.item_feature) continue;
    const auto names = item_names(folder, names_file(feature.name));
    if (names.size() == 0) continue;
    auto& ids = categories_[feature.name] = ids_by_name(names, feature.cardinality - 1);
    if (std::ranges::all_of(ids, [](const auto& id) { return is_number(id.first); })) {
      of_numbers_.insert(feature.name);
    }
    const auto& seen = known.at(feature.name);
    std::erase_if(ids, [&](const auto& id) { return !seen.knows(id.second); });
  }
}

void RequestFeatures::fail_of_unknown(const std::string& name) const {
  std::vector<std::string> others;
  for (const auto& feature : config_.features) {
    if (feature.name != config_.item_feature) others.push_back(feature.name);
  }
  fail<UsageError>("predict", "a request has the feature '{}', which the model has not{}; {}", name,
                   did_you_mean(name, others),
                   others.empty() ? "it reads items alone" : "it has " + join(others));
}

std::map<std::string, std::vector<double>> RequestFeatures::numbers_of(
    const RecommendationRequest& request, std::vector<std::string>& unknown) const {
  auto out = request.features;
  auto texts = request.categories;
  for (auto& [name, values] : out) {
    for (double& value : values) {
      if (of_numbers_.contains(name)) texts[name].push_back(raw_value(value));
      value = scales_.apply(name, value);
    }
  }
  for (const auto& [name, values] : texts) {
    const auto feature = std::ranges::find(config_.features, name, &models::SessionFeature::name);
    if (name == config_.item_feature || feature == config_.features.end()) fail_of_unknown(name);
    const auto ids = categories_.find(name);
    if (ids == categories_.end()) {
      fail<UsageError>("predict",
                       "a request has '{}' of feature '{}', but the run has no {} that gives it an "
                       "id; expected {}",
                       values.empty() ? "" : values.front(), name, names_file(name),
                       feature->categorical ? "ids" : "numbers");
    }
    auto& numbers = out[name];
    numbers.clear();
    for (const auto& value : values) {
      const auto id = ids->second.find(value);
      if (id == ids->second.end()) unknown.push_back(name + ": " + value);
      numbers.push_back(id == ids->second.end() ? 0 : static_cast<double>(id->second));
    }
  }
  return out;
}

std::map<std::string, std::vector<double>> RequestFeatures::of(
    const RecommendationRequest& request, std::vector<std::string>& unknown) const {
  auto out = numbers_of(request, unknown);
  for (const auto& [name, values] : out) {
    const auto feature = std::ranges::find(config_.features, name, &models::SessionFeature::name);
    const bool known = name != config_.item_feature && feature != config_.features.end();
    const auto wanted = known && !feature->is_list ? 1 : std::ssize(request.items);
    if (known && std::ssize(values) == wanted * std::max<int64_t>(1, feature->width)) continue;
    if (!known) fail_of_unknown(name);
    const auto* expected = feature->is_list ? "one for each" : "one, of the session";
    fail<UsageError>("predict", "a request has {} of feature '{}' for {}; expected {}{}",
                     plural(std::ssize(values), "value"), name,
                     plural(std::ssize(request.items), "item"), expected,
                     feature->width > 0
                         ? fmt::format(", a vector of {}", plural(feature->width, "number"))
                         : "");
  }
  return out;
}

}  // namespace convoy::tasks
