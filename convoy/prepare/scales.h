#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "convoy/prepare/features.h"

namespace convoy::prepare {

/// File of the scales beside the schema.
constexpr const char* kScalesFile = "scales.json";

/// Scales of continuous columns in a prepared data set, by which a request's raw values are scaled
/// alike: {"price-list": ["/100", "log1p"]}.
class Scales {
 public:
  /// Reads scales. Throws FileError for a file that is none of these; a missing file has no scales.
  static Scales load(const std::filesystem::path& file);

  void add(const std::string& column, const FeatureScale& scale);
  bool empty() const { return by_column_.empty(); }
  /// Throws UsageError where a column has another scale in data that the same model reads.
  void check_alike(const std::string& column, const Scales& other, const std::string& where) const;
  /// Scales a raw value as the column's. Throws UsageError where the result is not finite.
  double apply(const std::string& column, double value) const;
  std::string to_json() const;

 private:
  /// Returns the scale as text: "/100:log1p", or "no scale".
  std::string to_text(const std::string& column) const;

  std::map<std::string, FeatureScale> by_column_;
};

}  // namespace convoy::prepare
