#include "convoy/tasks/session/item_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace convoy::tasks {

namespace {

void sort_unique(std::vector<int64_t>& columns) {
  std::ranges::sort(columns);
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());  // on the host
}

std::vector<int64_t> without(const std::vector<int64_t>& columns,
                             const std::vector<int64_t>& left_out) {
  std::vector<int64_t> out;
  std::ranges::set_difference(columns, left_out, std::back_inserter(out));
  return out;
}

}  // namespace

ItemChoice ItemChoice::of(const RecommendationRequest& request, const RequestSession& session,
                          bool exclude_seen, const Ids& ids, std::vector<std::string>& unknown) {
  ItemChoice out{{.k = request.top_k}};
  auto& left_out = out.query.left_out;
  if (exclude_seen) {
    for (const int64_t id : session.seen) left_out.push_back(id - 1);
  }
  for (const auto& item : request.exclude) {
    if (const auto id = ids.find(item); id != ids.end()) left_out.push_back(id->second - 1);
  }
  sort_unique(left_out);
  if (request.candidates.empty()) return out;
  std::vector<int64_t> among;
  for (const auto& candidate : request.candidates) {
    if (const auto id = ids.find(candidate); id != ids.end()) {
      among.push_back(id->second - 1);
    } else {
      unknown.push_back(candidate);
    }
  }
  out.knows_candidates = !among.empty();
  sort_unique(among);
  out.query.among = without(among, left_out);
  return out;
}

std::string ItemChoice::why_none(const RecommendationRequest& request, bool exclude_seen) const {
  if (!knows_candidates) return "the model knows none of the candidates";
  const char* all =
      request.candidates.empty() ? "all items" : "all candidates that the model knows";
  const bool denies = !request.exclude.empty();
  return fmt::format("{} are left out{}{}{}", all, exclude_seen ? " as seen (exclude_seen)" : "",
                     exclude_seen && denies ? " or" : "", denies ? " by \"exclude\"" : "");
}

PopularItems::PopularItems(const std::vector<int64_t>& counts, const Ids& ids)
    : counts_(std::max<size_t>(counts.size(), 1) - 1) {
  for (const auto& [name, id] : ids) {
    const auto column = static_cast<size_t>(id - 1);
    if (column >= counts_.size() || counts[column + 1] == 0) continue;
    counts_[column] = counts[column + 1];
    columns_.push_back(id - 1);
  }
  std::ranges::sort(columns_, [&](int64_t a, int64_t b) {
    const auto &of_a = counts_[static_cast<size_t>(a)], of_b = counts_[static_cast<size_t>(b)];
    return of_a > of_b || (of_a == of_b && a < b);
  });
}

nn::TopColumns PopularItems::top(const nn::TopQuery& query) const {
  const auto count = [&](int64_t column) {
    return column < std::ssize(counts_) ? counts_[static_cast<size_t>(column)] : 0;
  };
  nn::TopColumns out;
  const auto add = [&](int64_t column) {
    if (std::ranges::binary_search(query.left_out, column)) return true;
    if (std::ssize(out.columns) == query.k) return false;
    out.columns.push_back(column);
    out.scores.push_back(static_cast<float>(count(column)));
    return true;
  };
  if (!query.among) {
    for (const int64_t column : columns_) {
      if (!add(column)) break;
    }
    return out;
  }
  std::vector<int64_t> among;
  std::ranges::copy_if(*query.among, std::back_inserter(among),
                       [&](int64_t c) { return count(c) > 0; });
  std::ranges::stable_sort(among, std::ranges::greater(), count);
  for (const int64_t column : among) {
    if (!add(column)) break;
  }
  return out;
}

}  // namespace convoy::tasks
