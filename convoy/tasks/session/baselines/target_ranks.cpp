#include "convoy/tasks/session/baselines/target_ranks.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <span>

#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

namespace {

/// Returns the distinct ids from 1 to num_items.
template <class Id>
std::vector<int32_t> distinct(std::span<const Id> ids, int64_t num_items) {
  std::vector<int32_t> out;
  for (const Id id : ids) {
    if (id >= 1 && id <= num_items) out.push_back(static_cast<int32_t>(id));
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

struct Question {
  int64_t target = 0;
  std::vector<int32_t> had;
};

class Ranker {
 public:
  Ranker(const ItemWeights& weights, int64_t num_items, const prepare::RankedRows& rows)
      : weights_(weights), rows_(rows), scores_(static_cast<size_t>(num_items) + 1) {}

  int64_t rank(const Question& question) {
    const auto target = static_cast<size_t>(question.target);
    if (!is_candidate(target)) return 0;
    const bool excludes = rows_.exclude_seen;
    if (excludes && std::ranges::binary_search(question.had, question.target)) return 0;
    std::ranges::fill(scores_, 0.0F);
    for (const int32_t item : question.had) weights_.add(item, scores_);
    const float score = scores_[target];
    const auto precedes = [&](size_t id) {
      return is_candidate(id) && (scores_[id] > score || (scores_[id] == score && id < target));
    };
    int64_t out = 1;
    for (size_t id = 1; id < scores_.size(); ++id) out += precedes(id);
    if (excludes) {
      for (const int32_t item : question.had) out -= precedes(static_cast<size_t>(item));
    }
    return out;
  }

 private:
  bool is_candidate(size_t id) const {
    const auto& candidates = rows_.candidates;
    return id < scores_.size() &&
           (candidates.empty() || (id < candidates.size() && candidates[id]));
  }

  const ItemWeights& weights_;
  const prepare::RankedRows& rows_;
  std::vector<float> scores_;
};

}  // namespace

std::vector<int64_t> target_ranks(const ItemWeights& weights, int64_t num_items,
                                  const data::ParquetFiles& valid, const std::string& item_column,
                                  const prepare::RankedRows& rows) {
  std::vector<int64_t> out;
  const auto selection = prepare::columns_of_targets(item_column, num_items, rows);
  data::each_rows(valid, selection, [&](const data::Rows& part) {
    std::vector<Question> questions;
    prepare::each_target(part, item_column, rows, [&](int64_t target, const auto& had) {
      questions.push_back({target, distinct(had, num_items)});
    });
    const size_t first = out.size();
    out.resize(first + questions.size());
    at::parallel_for(0, std::ssize(questions), 16, [&](int64_t begin, int64_t end) {
      Ranker ranker(weights, num_items, rows);
      for (int64_t i = begin; i < end; ++i) {
        const auto at = static_cast<size_t>(i);
        out[first + at] = ranker.rank(questions[at]);
      }
    });
  });
  return out;
}

}  // namespace convoy::tasks
