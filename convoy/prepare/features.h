#pragma once

#include <optional>
#include <string>
#include <vector>

namespace convoy::prepare {

enum class FeatureKind { Continuous, Categorical };

/// Scaling of a continuous value before it is written: (value x factor / divisor), then log1p.
struct FeatureScale {
  double factor = 1;
  double divisor = 1;
  bool log1p = false;

  bool operator==(const FeatureScale&) const = default;
  bool is_plain() const { return *this == FeatureScale(); }
  /// Takes one step in an option's spelling, "log1p", "/100" or "*2". Returns false where it is
  /// none.
  bool add(const std::string& step);
  /// Returns the steps: {"/100", "log1p"}.
  std::vector<std::string> steps() const;
  /// Returns the scaled value. Throws FileError that names `feature` where that is not a finite
  /// number.
  float apply(double value, const std::string& feature) const;
};

/// Function that makes one value of a session from those of its events.
enum class OfSession { First, Last, Sum, Mean, Min, Max };

/// Feature of each item of a session, or one of the session.
struct FeatureSpec {
  std::string name;                 ///< column of the input, or "time_delta": see sessions.h
  std::optional<FeatureKind> kind;  ///< empty: numbers are continuous, text is categorical
  FeatureScale scale;               ///< scaling of the session's value, or of an event's
  std::optional<OfSession> of_session = {};

  /// Scales the value of an event, unless the session's value is scaled.
  float of_event(double value) const {
    return of_session ? FeatureScale().apply(value, name) : scale.apply(value, name);
  }
  /// Returns the feature's column in files of sessions.
  std::string column() const { return of_session ? name : name + "-list"; }
};

/// Returns the value of a session from at least one value of its events.
float value_of_session(OfSession of, const std::vector<float>& values);

/// Parses "rating,price:continuous:/100,category:categorical,time_delta:continuous:log1p" and
/// "country:first,amount:sum:log1p".
std::vector<FeatureSpec> parse_features(const std::string& text);

}  // namespace convoy::prepare
