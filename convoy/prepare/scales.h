#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "convoy/prepare/features.h"

namespace convoy::prepare {

/// Where the scales lie beside the schema.
constexpr const char* kScalesFile = "scales.json";

/// What `convoy data sessions` did to continuous values, by column, so that raw values can be
/// scaled alike when a model is asked: {"price-list": ["/100", "log1p"]}.
class Scales {
 public:
  /// Throws FileError for a file that is none of these; one that is not there has no scales.
  static Scales load(const std::filesystem::path& file);

  void add(const std::string& column, const FeatureScale& scale);
  bool empty() const { return by_column_.empty(); }
  /// Throws UsageError where a column has another scale in data that the same model reads.
  void check_alike(const std::string& column, const Scales& other, const std::string& where) const;
  /// A raw value as the column has it. Throws UsageError where that is not finite.
  double apply(const std::string& column, double value) const;
  std::string to_json() const;

 private:
  /// "/100:log1p", or "no scale".
  std::string to_text(const std::string& column) const;

  std::map<std::string, FeatureScale> by_column_;
};

}  // namespace convoy::prepare
