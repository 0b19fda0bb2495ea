#pragma once

#include <array>
#include <string>

namespace convoy::prepare {

/// Events that are held out of training, as `--validation` says: targets of valid.parquet, and in
/// some splits later ones of test.parquet.
struct Validation {
  enum Kind { LastOut, LastTwo, Ratio, Dates, None };

  Kind kind = LastOut;
  std::string text = "leave-last-out";
  std::array<double, 3>
      shares{};                   ///< of Ratio: of each session's events that train, validate, test
  std::array<double, 2> dates{};  ///< of Dates: seconds after 1970 when validation and test begin

  bool has_valid() const { return kind != None; }
  bool has_test() const { return kind == LastTwo || kind == Ratio || kind == Dates; }
};

/// Parses leave-last-out, leave-last-two, ratio:0.8,0.1,0.1, date:2024-05-01,2024-06-01 or none.
/// Throws UsageError for anything else.
Validation parse_validation(const std::string& text);

}  // namespace convoy::prepare
