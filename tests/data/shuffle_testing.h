#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace convoy::data::testing {

using Batches = std::vector<std::vector<int64_t>>;  // rows of each, in order

/// Batches of one epoch that rank `rank` of `world` gets, of `batch` rows each.
using OpenEpoch = std::function<Batches(uint64_t seed, int64_t epoch, int64_t world, int64_t rank,
                                        int64_t batch)>;

/// Standard deviations by which chi-squared of the batches' numbers of marked rows differs from
/// that of uniform draws without replacement; classes that expect less than five are joined.
inline double chi_squared_z(const Batches& batches, int64_t batch, int64_t rows, int64_t marked) {
  std::vector<double> expected(static_cast<size_t>(batch) + 1), seen(expected.size());
  const auto choose = [](int64_t n, int64_t k) {
    return std::lgamma(static_cast<double>(n + 1)) - std::lgamma(static_cast<double>(k + 1)) -
           std::lgamma(static_cast<double>(n - k + 1));
  };
  for (int64_t k = 0; k <= batch; ++k) {
    expected[static_cast<size_t>(k)] =
        static_cast<double>(batches.size()) *
        std::exp(choose(marked, k) + choose(rows - marked, batch - k) - choose(rows, batch));
  }
  for (const auto& rows_of : batches) {
    ++seen[static_cast<size_t>(
        std::ranges::count_if(rows_of, [&](int64_t row) { return row < marked; }))];
  }
  double chi = 0, e = 0, o = 0;
  int classes = 0;
  for (size_t k = 0; k < expected.size(); ++k) {
    e += expected[k];
    o += seen[k];
    double left = 0;
    for (size_t i = k + 1; i < expected.size(); ++i) left += expected[i];
    if (e < 5 || (left > 0 && left < 5)) continue;
    chi += (o - e) * (o - e) / e;
    e = o = 0;
    ++classes;
  }
  const double df = classes - 1;
  return (chi - df) / std::sqrt(2 * df);
}

/// Standard deviations by which the number of pairs that share a batch in both differs from chance.
inline double common_pairs_z(const Batches& one, const Batches& other, int64_t batch,
                             int64_t rows) {
  std::map<int64_t, size_t> batch_of;
  for (size_t b = 0; b < other.size(); ++b) {
    for (int64_t row : other[b]) batch_of[row] = b;
  }
  double common = 0;
  for (const auto& rows_of : one) {
    for (size_t i = 0; i < rows_of.size(); ++i) {
      for (size_t j = 0; j < i; ++j) common += batch_of[rows_of[i]] == batch_of[rows_of[j]];
    }
  }
  const double pairs = static_cast<double>(rows * (batch - 1)) / 2;
  const double expected = pairs * static_cast<double>(batch - 1) / static_cast<double>(rows - 1);
  return (common - expected) / std::sqrt(expected);
}

/// Holds an order to that of uniform draws: of a file sorted by label each of 1,000 batches has as
/// many rows of a label as draws have, and two epochs, or seeds, put together what chance does.
inline void expect_shuffled(int64_t rows_a_batch, const OpenEpoch& open) {
  const int64_t batch = rows_a_batch, rows = 1000 * batch;
  for (int64_t world : {1, 3}) {
    SCOPED_TRACE(::testing::Message() << batch << " rows a batch, " << world << " ranks");
    const auto epoch = [&](uint64_t seed, int64_t number) {
      Batches all;
      for (int64_t rank = 0; rank < world; ++rank) {
        for (auto& one : open(seed, number, world, rank, batch)) {
          if (std::ssize(one) == batch) all.push_back(std::move(one));
        }
      }
      return all;
    };
    const auto first = epoch(7, 0);
    ASSERT_GE(first.size(), 995u);
    for (int64_t marked : {rows / 2, rows / 10}) {
      EXPECT_LT(std::abs(chi_squared_z(first, batch, rows, marked)), 4) << marked << " marked";
    }
    EXPECT_LT(std::abs(common_pairs_z(first, epoch(7, 1), batch, rows)), 4) << "another epoch";
    EXPECT_LT(std::abs(common_pairs_z(first, epoch(8, 0), batch, rows)), 4) << "another seed";
    // The other half of neighbourhood: rows that follow each other in the file.
    Batches file(static_cast<size_t>(rows / batch));
    for (int64_t row = 0; row < rows; ++row) file[static_cast<size_t>(row / batch)].push_back(row);
    EXPECT_LT(std::abs(common_pairs_z(first, file, batch, rows)), 4) << "the file";
  }
}

}  // namespace convoy::data::testing
