#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "convoy/nn/losses/top_products.h"

namespace convoy::nn {

/// Best columns so far of a row whose scores arrive one after the other.
class TopHeap {
 public:
  explicit TopHeap(int64_t k) : k_(static_cast<size_t>(k)) {}

  /// Returns the score above which a further one changes the result.
  float threshold() const { return threshold_; }
  /// Takes a score; columns come in ascending order.
  void add(float score, int64_t column);
  /// Takes the scores of the columns from `first` on.
  void add_all(std::span<const float> scores, int64_t first);
  /// Adds the best of other columns.
  void merge(const TopHeap& other);
  TopColumns sorted() const;

 private:
  struct Entry {
    float score;
    int64_t column;
  };
  static bool better(const Entry& a, const Entry& b) {
    return a.score > b.score || (a.score == b.score && a.column < b.column);
  }
  void insert(const Entry& entry);

  size_t k_;
  std::vector<Entry> entries_;  // a heap, whose front is the worst
  float threshold_ = -std::numeric_limits<float>::infinity();
  std::vector<int64_t> not_numbers_;  // columns whose score is no number: they come first
};

}  // namespace convoy::nn
