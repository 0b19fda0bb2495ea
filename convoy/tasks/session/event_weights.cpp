#include "convoy/tasks/session/event_weights.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/padding.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/run.h"

namespace convoy::tasks {

namespace {

constexpr const char* kWeightsOption = "train.event_weights";

/// Column of the weights in the schema: `rating` may be the column rating-list.
const formats::Feature& weights_column(const std::string& name, const formats::Schema& schema) {
  const auto* feature = schema.find(name);
  if (feature == nullptr) feature = schema.find(name + "-list");
  if (feature == nullptr) {
    std::vector<std::string> known;
    for (const auto& other : schema.features) known.push_back(other.name);
    fail<UsageError>("data", "{} has '{}', which {} does not name; got {}{}", kWeightsOption, name,
                     schema.where, join(known), did_you_mean(name, known));
  }
  const bool is_value = feature->has_tag("categorical") || feature->has_tag("continuous");
  if (feature->is_list && is_value && !feature->has_tag("item_id")) return *feature;
  fail<UsageError>("data",
                   "{} has '{}', which is no list of numbers or categories of the events in {}; "
                   "try a column of convoy data sessions --features",
                   kWeightsOption, feature->name, schema.where);
}

/// Ids of a categorical column's values by their texts.
std::map<std::string, size_t> ids_of_values(const formats::Feature& feature,
                                            const DataArguments& data) {
  const auto names = prepare::ItemNames::load(data.beside_schema(names_file(feature.name)));
  std::map<std::string, size_t> out;
  for (int64_t id = 1; id <= feature.int_domain->max; ++id) {
    out.emplace(names.raw_id(id), static_cast<size_t>(id));
  }
  return out;
}

std::vector<float> weights_of_values(const std::string& text, const formats::Feature& feature,
                                     const DataArguments& data) {
  const auto ids = ids_of_values(feature, data);
  std::vector<float> out(static_cast<size_t>(feature.int_domain->max) + 1, 1);
  for (const auto& part : split(text, ',')) {
    const auto equals = part.rfind('=');
    double weight = 0;
    if (equals == std::string::npos || !parse_number(part.substr(equals + 1), weight) ||
        weight < 0 || !std::isfinite(weight)) {
      fail<UsageError>("config",
                       "{} has '{}'; expected VALUE=WEIGHT with a finite weight of at least 0",
                       kWeightsOption, part);
    }
    const auto value = part.substr(0, equals);
    const auto found = ids.find(value);
    if (found == ids.end()) {
      std::vector<std::string> known;
      for (const auto& [name, id] : ids) known.push_back(name);
      const auto similar = did_you_mean(value, known);
      constexpr size_t kFew = 20;
      if (known.size() > kFew) known.resize(kFew);
      fail<UsageError>("data", "{} names '{}', which is no value of {}; got {}{}", kWeightsOption,
                       value, feature.name, join(known), similar);
    }
    out[found->second] = static_cast<float>(weight);
  }
  return out;
}

}  // namespace

void take_event_weights(SessionArguments& arguments, const formats::Schema& schema) {
  const auto& text = arguments.event_weights;
  auto& weights = arguments.model.event_weights;
  weights = {};
  if (text.empty()) return;
  const auto colon = text.find(':');
  const auto& feature = weights_column(text.substr(0, colon), schema);
  const bool categorical =
      feature.type == formats::Feature::Int && feature.int_domain && feature.has_tag("categorical");
  const bool has_values = colon != std::string::npos;
  if (categorical != has_values) {
    fail<UsageError>("data", "{} = {}: {} has {}; expected {}", kWeightsOption, text, feature.name,
                     categorical ? "categories" : "numbers",
                     categorical ? "COLUMN:VALUE=WEIGHT,..." : "the name of the column alone");
  }
  weights.column = feature.name;
  if (!categorical) return;
  weights.of_values = weights_of_values(text.substr(colon + 1), feature, arguments.data);
}

double EventWeightsSurvey::of(const data::Rows& rows, int64_t i) const {
  if (empty()) return 1;
  const auto& column = rows.columns.at(weights_.column);
  const auto at = static_cast<size_t>(i);
  if (column.kind == data::Column::Float32) return column.floats[at];
  const int64_t value = column.ints[at];
  if (weights_.of_values.empty()) return static_cast<double>(value);
  return weights_.of_values.at(static_cast<size_t>(value));
}

void EventWeightsSurvey::add(const data::Rows& rows, const data::Column& items, int64_t first) {
  if (empty()) return;
  const auto& column = rows.columns.at(weights_.column);
  if (!column.is_list) {
    fail<FileError>("data", "column '{}' of {} has one value a row; expected a list, as {} needs",
                    weights_.column, data_.where(), kWeightsOption);
  }
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const int64_t end = column.begin(row) + data::unpadded_length(items, row);
    for (int64_t i = column.begin(row); i < end; ++i) {
      const double weight = of(rows, i);
      if (weight < 0) {
        fail<FileError>("data",
                        "{} has {} = {:g}; expected a weight of at least 0, as {} needs; mend the "
                        "row, or try another column",
                        data::row_text(data_, first + row), weights_.column, weight,
                        kWeightsOption);
      }
      ++num_events_;
      num_zeros_ += weight == 0;
      sum_ += weight;
    }
  }
}

void EventWeightsSurvey::finish() const {
  if (empty() || of_targets_ > 0) return;
  if (sum_ == 0) {
    fail<FileError>("data",
                    "all {} of {} in {} are 0, so no target counts; try another column in {}",
                    plural(num_events_, "weight"), weights_.column, data_.where(), kWeightsOption);
  }
  fail<FileError>("data",
                  "{} of {} events in {} have {} above 0, and none of them is a target, which a "
                  "session's first event never is; try another column in {}",
                  human_count(num_events_ - num_zeros_), human_count(num_events_), data_.where(),
                  weights_.column, kWeightsOption);
}

std::string EventWeightsSurvey::note() const {
  if (empty()) return "";
  const auto zeros = num_zeros_ == 0
                         ? ""
                         : fmt::format("; {} of {} events have 0 and are no targets",
                                       human_count(num_zeros_), human_count(num_events_));
  return fmt::format("targets count in the loss as {} says, {:.3g} on average{}", weights_.column,
                     sum_ / static_cast<double>(num_events_), zeros);
}

}  // namespace convoy::tasks
