#include "convoy/prepare/validation.h"

#include <cmath>
#include <numeric>
#include <string_view>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/prepare/times.h"

namespace convoy::prepare {

namespace {

constexpr std::string_view kRatio = "ratio:", kDate = "date:";

void read_shares(const std::string& text, Validation& out) {
  const auto parts = split(text.substr(kRatio.size()), ',');
  bool good = parts.size() == out.shares.size();
  for (size_t i = 0; good && i < parts.size(); ++i) {
    good = parse_number(parts[i], out.shares[i]) && out.shares[i] > 0 && out.shares[i] < 1;
  }
  const double sum = std::accumulate(out.shares.begin(), out.shares.end(), 0.0);
  constexpr double kRounding = 1e-9;
  if (!good || std::abs(sum - 1) > kRounding) {
    fail<UsageError>("prepare",
                     "--validation {} is no ratio; expected three shares above 0 that sum to 1, of "
                     "training, validation and test; try --validation ratio:0.8,0.1,0.1",
                     text);
  }
  for (double& share : out.shares) share /= sum;
}

void read_dates(const std::string& text, Validation& out) {
  const auto parts = split(text.substr(kDate.size()), ',');
  bool good = parts.size() == out.dates.size();
  for (size_t i = 0; good && i < parts.size(); ++i) {
    const auto seconds = parse_utc(parts[i]);
    good = seconds.has_value();
    out.dates[i] = seconds.value_or(0);
  }
  if (!good || out.dates[0] >= out.dates[1]) {
    fail<UsageError>("prepare",
                     "--validation {} names no two dates, one after the other; expected the first "
                     "of validation and the first of the test, in UTC; try --validation "
                     "date:2024-05-01,2024-06-01",
                     text);
  }
}

}  // namespace

Validation parse_validation(const std::string& text) {
  Validation out;
  out.text = text;
  if (text == "leave-last-out") return out;
  if (text == "none") {
    out.kind = Validation::None;
  } else if (text == "leave-last-two") {
    out.kind = Validation::LastTwo;
  } else if (text.starts_with(kRatio)) {
    out.kind = Validation::Ratio;
    read_shares(text, out);
  } else if (text.starts_with(kDate)) {
    out.kind = Validation::Dates;
    read_dates(text, out);
  } else {
    fail<UsageError>("prepare",
                     "--validation is '{}'; expected leave-last-out, leave-last-two, "
                     "ratio:TRAIN,VALID,TEST, date:VALID,TEST or none",
                     text);
  }
  return out;
}

}  // namespace convoy::prepare
