#include "convoy/prepare/sessions_schema.h"

namespace convoy::prepare {

using formats::Feature;

SchemaBuilder::SchemaBuilder(int64_t min_length, int64_t max_length)
    : min_length_(min_length), max_length_(max_length) {}

void SchemaBuilder::add_user(int64_t num_users) {
  Feature feature;
  feature.name = "user_id";
  feature.type = Feature::Int;
  feature.int_domain = formats::IntDomain{1, num_users, false, "user_id"};
  feature.tags = {"user_id"};
  schema_.features.push_back(feature);
}

void SchemaBuilder::add_item(int64_t num_items) {
  Feature& feature = add_list(formats::kItemColumn, Feature::Int);
  feature.int_domain = formats::IntDomain{0, num_items, true, "item_id"};
  feature.tags = {"item_id", "item", "categorical", "list"};
}

void SchemaBuilder::add_categorical(const FeatureSpec& spec, int64_t num_values) {
  add(spec, Feature::Int, "categorical").int_domain =
      formats::IntDomain{0, num_values, true, spec.name};
}

void SchemaBuilder::add_continuous(const FeatureSpec& spec, double low, double high) {
  add(spec, Feature::Float, "continuous").float_domain =
      formats::FloatDomain{low, high, spec.column()};
}

void SchemaBuilder::add_time(const std::string& column) {
  add_list(column, Feature::Int).tags = {"time", "list"};
}

Feature& SchemaBuilder::add(const FeatureSpec& spec, Feature::Type type, const std::string& tag) {
  if (!spec.of_session) {
    auto& feature = add_list(spec.column(), type);
    feature.tags = {tag, "list"};
    return feature;
  }
  Feature feature;
  feature.name = spec.column();
  feature.type = type;
  feature.tags = {tag};
  schema_.features.push_back(feature);
  return schema_.features.back();
}

Feature& SchemaBuilder::add_list(const std::string& column, Feature::Type type) {
  Feature feature;
  feature.name = column;
  feature.type = type;
  feature.is_list = true;
  feature.min_length = min_length_;
  feature.max_length = max_length_;
  schema_.features.push_back(feature);
  return schema_.features.back();
}

}  // namespace convoy::prepare
