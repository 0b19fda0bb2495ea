#include "convoy/trials/space.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::trials {

namespace {

constexpr std::string_view kTo = "..";

/// Generator of numbers in [0, 1) from a seed (SplitMix64).
class Uniform {
 public:
  explicit Uniform(uint64_t seed) : state_(seed) {}

  double next() {
    constexpr int kBitsOfDouble = 53;
    return std::ldexp(static_cast<double>(bits() >> (64 - kBitsOfDouble)), -kBitsOfDouble);
  }
  int64_t below(int64_t end) {
    return std::min(end - 1, static_cast<int64_t>(next() * static_cast<double>(end)));
  }

 private:
  uint64_t bits() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  uint64_t state_;
};

/// Value of a dimension at a place of its range, in [0, 1).
std::string value_at(const Dimension& dimension, double place) {
  const auto& values = dimension.values;
  if (!values.empty()) {
    const auto at = static_cast<size_t>(place * static_cast<double>(values.size()));
    return values[std::min(at, values.size() - 1)];
  }
  // The bounds of whole numbers are as likely as those between.
  const double low = dimension.whole ? dimension.low - 0.5 : dimension.low;
  const double high = dimension.whole ? dimension.high + 0.5 : dimension.high;
  const double value =
      dimension.is_log() ? low * std::pow(high / low, place) : low + place * (high - low);
  if (!dimension.whole) return fmt::format("{:.3g}", value);
  const auto whole = std::clamp(std::round(value), dimension.low, dimension.high);
  return std::to_string(static_cast<int64_t>(whole));
}

/// Number of combinations, at most `most`.
int64_t combinations(const std::vector<Dimension>& dimensions, int64_t most) {
  int64_t out = 1;
  for (const auto& dimension : dimensions) {
    if (dimension.values.empty() && !dimension.whole) return most;
    const double each = dimension.values.empty() ? dimension.high - dimension.low + 1
                                                 : static_cast<double>(dimension.values.size());
    if (each >= static_cast<double>(most)) return most;
    out *= static_cast<int64_t>(each);
    if (out >= most) return most;
  }
  return out;
}

}  // namespace

Dimension parse_dimension(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    fail<UsageError>("tune",
                     "--try '{}' names no option with values; expected OPTION=LOW..HIGH or "
                     "OPTION=VALUE,VALUE, such as learning_rate=1e-4..1e-2",
                     text);
  }
  Dimension out{text.substr(0, equals)};
  while (out.option.starts_with("-")) out.option.erase(0, 1);
  const auto given = text.substr(equals + 1);
  const auto to = given.find(kTo);
  if (to == std::string::npos || to == 0) {  // a path may begin so
    out.values = split(given, ',');
    const std::set<std::string> distinct(out.values.begin(), out.values.end());
    if (distinct.size() == out.values.size() && !distinct.contains("")) return out;
    fail<UsageError>("tune", "--try {}: a value is empty or there twice; expected each once", text);
  }
  const auto low = given.substr(0, to), high = given.substr(to + kTo.size());
  if (!parse_number(low, out.low) || !parse_number(high, out.high) || !std::isfinite(out.low) ||
      !std::isfinite(out.high) || out.low >= out.high) {
    fail<UsageError>("tune",
                     "--try {}: '{}' is no range; expected two numbers, the smaller one first, "
                     "such as 1e-4..1e-2",
                     text, given);
  }
  int64_t ignored = 0;
  out.whole = parse_number(low, ignored) && parse_number(high, ignored);
  return out;
}

std::string spelled(const Dimension& dimension, const std::string& value) {
  double number = 0, other = 0;
  if (!parse_number(value, number)) return value;
  for (const auto& own : dimension.values) {
    if (parse_number(own, other) && other == number) return own;
  }
  return value;
}

std::vector<Options> draw(const std::vector<Dimension>& dimensions, int64_t number, uint64_t seed,
                          const Options& taken) {
  Uniform uniform(seed);
  const auto is_a_combination = [&] {
    return !taken.empty() && std::ranges::all_of(dimensions, [&](const Dimension& dimension) {
      return std::ranges::count(dimension.values, taken.at(dimension.option)) > 0;
    });
  };
  const int64_t all = combinations(dimensions, number + 1);
  const int64_t wanted = std::min(number, all - (all <= number && is_a_combination() ? 1 : 0));
  if (wanted <= 0) return {};
  std::vector<Options> out(static_cast<size_t>(wanted));
  for (const auto& dimension : dimensions) {
    std::vector<int64_t> parts(out.size());
    std::iota(parts.begin(), parts.end(), 0);
    for (int64_t i = wanted - 1; i > 0; --i) {
      std::swap(parts[static_cast<size_t>(i)], parts[static_cast<size_t>(uniform.below(i + 1))]);
    }
    for (size_t i = 0; i < out.size(); ++i) {
      const double place =
          (static_cast<double>(parts[i]) + uniform.next()) / static_cast<double>(wanted);
      out[i][dimension.option] = value_at(dimension, place);
    }
  }
  // A combination that came before is drawn again. Of a range so narrow that its three digits are
  // often the same not all trials may be left.
  constexpr int kTries = 10'000;
  std::set<Options> seen{taken};
  std::vector<Options> distinct;
  for (auto& options : out) {
    bool is_new = seen.insert(options).second;
    for (int i = 0; i < kTries && !is_new; ++i) {
      for (const auto& dimension : dimensions) {
        options[dimension.option] = value_at(dimension, uniform.next());
      }
      is_new = seen.insert(options).second;
    }
    if (is_new) distinct.push_back(std::move(options));
  }
  return distinct;
}

}  // namespace convoy::trials
