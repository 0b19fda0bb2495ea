#pragma once

#include <optional>
#include <string>
#include <vector>

namespace convoy::prepare {

enum class FeatureKind { Continuous, Categorical };

/// What happens to a continuous value before it is written: (value x factor / divisor), then log1p.
struct FeatureScale {
  double factor = 1;
  double divisor = 1;
  bool log1p = false;
  /// Throws FileError when the result is not a finite number.
  float apply(double value, const std::string& feature) const;
};

/// One feature that goes along with every item of a session.
struct FeatureSpec {
  std::string name;                 ///< column of the input, or "time_delta": see sessions.h
  std::optional<FeatureKind> kind;  ///< empty: numbers are continuous, text is categorical
  FeatureScale scale;
};

/// Parses "rating,price:continuous:/100,category:categorical,time_delta:continuous:log1p".
std::vector<FeatureSpec> parse_features(const std::string& text);

}  // namespace convoy::prepare
