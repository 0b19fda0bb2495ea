#include "convoy/nn/losses/top_columns.h"

#include "convoy/base/lanes.h"

namespace convoy::nn {

namespace {

constexpr int64_t kAtOnce = 4 * lanes::kLanes;

/// Start of the first block of kAtOnce scores, from `at` on, with a score that is not at most
/// `threshold`; where there is none `end`, less than kAtOnce before the last score.
CONVOY_CLONES int64_t next_stretch(const float* scores, int64_t at, int64_t end, float threshold) {
  const lanes::Floats least = lanes::Floats{} + threshold;
  for (; at + kAtOnce <= end; at += kAtOnce) {
    auto above = lanes::Floats{} != lanes::Floats{};
    for (int64_t i = 0; i < kAtOnce; i += lanes::kLanes) {
      lanes::Floats values;
      lanes::load(scores + at + i, values);
      above |= ~(values <= least);
    }
    uint64_t words[sizeof(above) / sizeof(uint64_t)], any = 0;
    std::memcpy(words, &above, sizeof(above));
    for (const uint64_t word : words) any |= word;
    if (any != 0) return at;
  }
  return at;
}

}  // namespace

void TopHeap::insert(const Entry& entry) {
  if (k_ == 0) return;
  if (entries_.size() == k_) {
    std::ranges::pop_heap(entries_, better);
    entries_.pop_back();
  }
  entries_.push_back(entry);
  std::ranges::push_heap(entries_, better);
  if (entries_.size() == k_) threshold_ = entries_.front().score;
}

void TopHeap::add(float score, int64_t column) {
  if (score <= threshold_) return;
  if (std::isnan(score)) {
    if (not_numbers_.size() < k_) not_numbers_.push_back(column);
    return;
  }
  insert({score, column});
}

void TopHeap::add_all(std::span<const float> scores, int64_t first) {
  const int64_t count = std::ssize(scores);
  for (int64_t at = 0; at < count;) {
    at = next_stretch(scores.data(), at, count, threshold_);
    const int64_t end = std::min(at + kAtOnce, count);
    for (; at < end; ++at) add(scores[static_cast<size_t>(at)], first + at);
  }
}

void TopHeap::merge(const TopHeap& other) {
  for (const auto& entry : other.entries_) {
    if (entries_.size() < k_ || better(entry, entries_.front())) insert(entry);
  }
  not_numbers_.insert(not_numbers_.end(), other.not_numbers_.begin(), other.not_numbers_.end());
}

TopColumns TopHeap::sorted() const {
  auto entries = entries_;
  std::ranges::sort(entries, better);
  auto first = not_numbers_;
  std::ranges::sort(first);
  TopColumns out;
  for (const int64_t column : first) {
    out.scores.push_back(std::numeric_limits<float>::quiet_NaN());
    out.columns.push_back(column);
  }
  for (const auto& entry : entries) {
    out.scores.push_back(entry.score);
    out.columns.push_back(entry.column);
  }
  const auto most = std::min(k_, out.scores.size());
  out.scores.resize(most);
  out.columns.resize(most);
  return out;
}

}  // namespace convoy::nn
