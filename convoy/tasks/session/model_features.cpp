#include "convoy/tasks/session/model_features.h"

#include <algorithm>
#include <limits>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/tasks/session/vector_columns.h"

namespace convoy::tasks {

namespace {

/// Whether a feature describes an item or a session by its tags, and is not to be predicted.
bool usable(const formats::Feature& feature) {
  for (const char* tag :
       {"user_id", "session_id", "target", "binary_classification", "regression"}) {
    if (!feature.is_list && feature.has_tag(tag)) return false;
  }
  if (holds_vectors(feature)) return true;
  const bool tagged = feature.has_tag("categorical") || feature.has_tag("continuous");
  if (feature.is_list) return tagged;
  const bool number = feature.type == formats::Feature::Float ||
                      (feature.type == formats::Feature::Int &&
                       (feature.int_domain.has_value() || !feature.has_tag("categorical")));
  return tagged && number;
}

bool is_target(const models::SessionConfig& model, const std::string& column) {
  return std::ranges::find(model.targets, column, &models::SessionTarget::column) !=
         model.targets.end();
}

std::vector<std::string> feature_names(const formats::Schema& schema,
                                       const std::vector<std::string>& wanted,
                                       const models::SessionConfig& model,
                                       const std::string& where) {
  std::vector<std::string> known, chosen;
  for (const auto& feature : schema.features) {
    known.push_back(feature.name);
    if (usable(feature) && !is_target(model, feature.name)) chosen.push_back(feature.name);
  }
  if (wanted.empty()) return chosen;
  for (const auto& name : wanted) {
    if (std::count(wanted.begin(), wanted.end(), name) > 1) {
      fail<UsageError>("data", "data.features has '{}' twice", name);
    }
    if (schema.find(name) == nullptr) {
      fail<UsageError>("data", "data.features has '{}', which {} does not name; got {}{}", name,
                       where, join(known), did_you_mean(name, known));
    }
    const auto& feature = *schema.find(name);
    const bool is_value = feature.has_tag("categorical") || feature.has_tag("continuous");
    for (const char* tag : {"time", "user_id", "session_id"}) {
      if (is_value || !feature.has_tag(tag)) continue;
      fail<UsageError>("data",
                       "data.features has '{}', whose tag in {} is {}: it is no value that a model "
                       "reads; try without it{}",
                       name, where, tag,
                       tag == std::string_view("time") ? ", or a body that reads times, such as "
                                                         "--body hstu"
                                                       : "");
    }
    if (is_target(model, name)) {
      fail<UsageError>("data",
                       "data.features has '{}', which model.prediction_tasks asks for; expected it "
                       "in one of them",
                       name);
    }
  }
  return wanted;
}

}  // namespace

std::vector<models::SessionFeature> model_features(const DataArguments& data,
                                                   const models::SessionConfig& model,
                                                   const formats::Schema& schema) {
  const auto item = schema.item_id().name;
  auto names = feature_names(schema, data.features, model, data.schema_file());
  if (std::find(names.begin(), names.end(), item) == names.end()) {
    names.push_back(item);
  }
  std::vector<models::SessionFeature> features;
  for (const auto& name : names) {
    const auto& feature = *schema.find(name);
    models::SessionFeature out;
    out.name = name;
    if (holds_vectors(feature)) {
      out.categorical = false;
      take_vectors(data::ParquetFiles(data.train_file()), feature, out);
      features.push_back(out);
      continue;
    }
    out.is_list = feature.is_list || name == item;
    if (feature.type == formats::Feature::Unknown) {
      fail<FileError>("data", "feature '{}' in {} has no type; expected INT for ids, or FLOAT",
                      name, data.schema_file());
    }
    out.categorical =
        feature.type == formats::Feature::Int && (feature.has_tag("categorical") || name == item);
    if (out.categorical) {
      if (!feature.int_domain) {
        fail<FileError>("data", "feature '{}' in {} has no intDomain; expected its largest id",
                        name, data.schema_file());
      }
      if (feature.int_domain->max > std::numeric_limits<int64_t>::max() / 2) {
        fail<FileError>("data", "feature '{}' in {} has max = {}; expected its largest id", name,
                        data.schema_file(), feature.int_domain->max);
      }
      out.cardinality = feature.int_domain->max + 1;
    }
    features.push_back(out);
  }
  return features;
}

std::string time_feature(const models::SessionConfig& model, const formats::Schema& schema) {
  if (!model.reads_times()) return "";
  for (const auto& feature : schema.features) {
    if (!feature.is_list || !feature.has_tag("time")) continue;
    // The hour or the weekday are tagged as features.
    if (!feature.has_tag("categorical") && !feature.has_tag("continuous")) return feature.name;
  }
  return "";
}

}  // namespace convoy::tasks
