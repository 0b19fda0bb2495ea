#include "convoy/data/mixture.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"

namespace convoy::data {

namespace {

constexpr double kMostRows = 1.0 * (int64_t{1} << 40);

void check_sources(const std::vector<MixtureSource>& sources) {
  if (sources.empty()) fail<UsageError>("data", "a mixture has no source");
  for (const auto& [name, rows, weight, sum] : sources) {
    if (!std::isfinite(weight) || weight <= 0) {
      fail<UsageError>("data", "{} has the weight {} in the mixture; expected a number above 0",
                       name, weight);
    }
    if (rows < 1) fail<UsageError>("data", "{} has no rows for the mixture", name);
  }
}

/// Rows of an epoch, before they are divided among the sources.
double rows_of_epoch(const std::vector<MixtureSource>& sources, double sum, MixtureStop stop) {
  std::vector<double> until_used_up;
  for (const auto& source : sources) {
    until_used_up.push_back(static_cast<double>(source.rows) * sum / source.weight);
  }
  const auto [first, last] = std::minmax_element(until_used_up.begin(), until_used_up.end());
  return stop == MixtureStop::FirstExhausted ? *first : *last;
}

}  // namespace

uint64_t sum_of_ids(std::span<const int32_t> ids) {
  uint64_t sum = ids.size();
  for (const int32_t id : ids) {
    sum = (sum ^ static_cast<uint32_t>(id)) * 0x9E3779B97F4A7C15ull;
    sum ^= sum >> 32;
  }
  return sum;
}

uint64_t sum_of_some(const TokenView& ids) {
  constexpr int64_t kMost = 1 << 16;
  std::vector<int32_t> some;
  const int64_t step = std::max<int64_t>(1, ids.size() / kMost);
  for (int64_t at = 0; at < ids.size(); at += step) some.push_back(static_cast<int32_t>(ids[at]));
  return sum_of_ids(some) + static_cast<uint64_t>(ids.size());
}

Mixture::Mixture(std::vector<MixtureSource> sources, MixtureStop stop)
    : sources_(std::move(sources)) {
  check_sources(sources_);
  double sum = 0;
  for (const auto& source : sources_) sum += source.weight;
  const double rows = rows_of_epoch(sources_, sum, stop);
  if (!(rows <= kMostRows)) {
    fail<UsageError>("data",
                     "an epoch of the mixture would have {:.3g} rows; expected at most 2^40; try "
                     "weights that are nearer to each other, or --mixture_stop first_exhausted",
                     rows);
  }
  begins_ = firsts_ = {0};
  for (const auto& source : sources_) {
    // Above a whole number by rounding alone, such as 0.7 x 10.
    const auto share = static_cast<int64_t>(std::floor(rows * source.weight / sum + 1e-6));
    if (share < 1) {
      fail<UsageError>("data",
                       "{} has a weight of {} of {}, not one of an epoch's {:.0f} rows; try a "
                       "larger weight, or --mixture_stop all_exhausted",
                       source.name, source.weight, sum, rows);
    }
    begins_.push_back(begins_.back() + share);
    firsts_.push_back(firsts_.back() + source.rows);
  }
}

size_t Mixture::source_of(int64_t place) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), place);
  return static_cast<size_t>(next - begins_.begin()) - 1;
}

int64_t Mixture::row_of(uint64_t seed, int64_t epoch, int64_t place) const {
  const size_t source = source_of(place);
  const int64_t rows = sources_[source].rows;
  const int64_t taken = epoch * rows_of(source) + place - begins_[source];
  const auto pass = static_cast<uint64_t>(taken / rows);
  const Permutation order(static_cast<uint64_t>(rows),
                          hash_combine(hash_combine(seed, source), pass));
  return firsts_[source] + static_cast<int64_t>(order(static_cast<uint64_t>(taken % rows)));
}

std::string Mixture::text() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const auto share = static_cast<double>(rows_of(i));
    parts.push_back(fmt::format("{} gives {} ({:.1f} %), {:.2f} times its {}", sources_[i].name,
                                rows_of(i), 100 * share / static_cast<double>(num_rows()),
                                share / static_cast<double>(sources_[i].rows), sources_[i].rows));
  }
  return fmt::format("mixture: {} an epoch; {}", plural(num_rows(), "row"), fmt::join(parts, "; "));
}

std::string Mixture::identity() const {
  std::vector<std::string> parts;
  for (const auto& [name, rows, weight, sum] : sources_) {
    parts.push_back(fmt::format("{} rows {:016x} by {}", rows, sum, weight));
  }
  return fmt::format("a mixture of {} an epoch: {}", num_rows(), fmt::join(parts, ", "));
}

}  // namespace convoy::data
