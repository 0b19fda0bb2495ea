#pragma once

#include <cstdint>
#include <string>

#include "convoy/formats/schema.h"
#include "convoy/prepare/features.h"

namespace convoy::prepare {

/// Describes the columns that SessionWriter writes, in Transformers4Rec's terms.
class SchemaBuilder {
 public:
  /// Takes the least and largest length of the lists.
  SchemaBuilder(int64_t min_length, int64_t max_length);

  void add_user(int64_t num_users);
  void add_item(int64_t num_items);
  void add_categorical(const FeatureSpec& feature, int64_t num_values);
  void add_continuous(const FeatureSpec& feature, double low, double high);
  void add_time(const std::string& column);

  const formats::Schema& schema() const { return schema_; }

 private:
  formats::Feature& add_list(const std::string& column, formats::Feature::Type type);
  /// Adds a feature: a list, or one value of a session.
  formats::Feature& add(const FeatureSpec& feature, formats::Feature::Type type,
                        const std::string& tag);

  int64_t min_length_;
  int64_t max_length_;
  formats::Schema schema_;
};

}  // namespace convoy::prepare
