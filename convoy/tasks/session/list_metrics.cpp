#include "convoy/tasks/session/list_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

using List = std::span<const int64_t>;

/// Value of an id in a column by id; 0 where the column ends before it.
int64_t value_at(const std::vector<int64_t>& column, int64_t id) {
  const auto at = static_cast<size_t>(id);
  return at < column.size() ? column[at] : 0;
}

/// Popularity rank of each item among the distinct counts: 1 for the greatest; 0 where it has no
/// event.
std::vector<int64_t> popularity_places(const std::vector<int64_t>& counts) {
  std::set<int64_t, std::greater<>> different(counts.begin(), counts.end());
  different.erase(0);
  std::map<int64_t, int64_t> places;
  for (const int64_t count : different) places.emplace(count, std::ssize(places) + 1);
  std::vector<int64_t> out(counts.size(), 0);
  for (size_t id = 1; id < counts.size(); ++id) {
    if (counts[id] > 0) out[id] = places.at(counts[id]);
  }
  return out;
}

double mean_over(List list, const auto& of) {
  double sum = 0;
  for (const int64_t id : list) sum += of(id);
  return sum / static_cast<double>(list.size());
}

/// Novelty: mean bits of the inverse share of persons who had an item; nobody counts as one.
double novelty(List list, const CatalogFacts& facts) {
  return mean_over(list, [&](int64_t id) {
    const auto had = static_cast<double>(std::max<int64_t>(1, value_at(facts.users, id)));
    return -std::log2(had / static_cast<double>(facts.num_users));
  });
}

double average_popularity(List list, const CatalogFacts& facts) {
  return mean_over(list,
                   [&](int64_t id) { return static_cast<double>(value_at(facts.counts, id)); });
}

/// Mean over the pairs of a list of the number of columns in which they differ.
double diversity(List list, const CatalogFacts& facts) {
  if (list.size() < 2) return 0;
  double sum = 0;
  for (const auto& [name, values] : facts.categories) {
    for (size_t i = 0; i < list.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        sum += value_at(values, list[i]) == value_at(values, list[j]) ? 0 : 1;
      }
    }
  }
  return sum / (static_cast<double>(list.size()) * static_cast<double>(list.size() - 1) / 2);
}

/// Serendipity: how much higher the list ranks the target than popularity does, as a share of the
/// catalog.
double serendipity(List list, int64_t target, const CatalogFacts& facts,
                   const std::vector<int64_t>& places) {
  const auto found = std::ranges::find(list, target);
  if (found == list.end()) return 0;
  const auto items = static_cast<double>(facts.num_items);
  const auto chance = [&](int64_t place) {
    return (items + 1 - static_cast<double>(place)) / items;
  };
  const int64_t place = value_at(places, target);
  const double anybody = place > 0 ? chance(place) : 0;
  const double here = chance(found - list.begin() + 1);
  return std::max(here - anybody, 0.0) / static_cast<double>(list.size());
}

/// Adds the mean and the standard error of `of` over the lists.
template <class F>
void add_mean(const std::string& name, const EvaluatedRows& lists, int64_t k, F&& of,
              std::map<std::string, double>& out) {
  std::vector<double> values;
  for (int64_t i = 0; i < lists.size(); ++i) {
    const auto list = lists.list(i, k);
    if (!list.empty()) values.push_back(of(i, list));
  }
  if (values.empty()) return;
  const auto rows = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  for (const double value : values) squares += (value - sum / rows) * (value - sum / rows);
  const auto key = fmt::format("{}_at_{}", name, k);
  out[key] = sum / rows;
  if (rows > 1) out[key + train::kStandardError] = std::sqrt(squares / (rows - 1) / rows);
}

}  // namespace

std::map<std::string, double> list_metrics(const EvaluatedRows& lists,
                                           const std::vector<int64_t>& targets,
                                           const std::vector<int64_t>& ks,
                                           const CatalogFacts& facts) {
  std::map<std::string, double> out;
  const auto places = popularity_places(facts.counts);
  for (const int64_t k : ks) {
    std::set<int64_t> shown;
    for (int64_t i = 0; i < lists.size(); ++i) {
      const auto list = lists.list(i, k);
      shown.insert(list.begin(), list.end());
    }
    out[fmt::format("coverage_at_{}", k)] =
        static_cast<double>(shown.size()) /
        static_cast<double>(std::max<int64_t>(1, facts.num_items));
    if (!facts.counts.empty()) {
      add_mean(
          "average_popularity", lists, k,
          [&](int64_t, List list) { return average_popularity(list, facts); }, out);
      add_mean(
          "serendipity", lists, k,
          [&](int64_t i, List list) {
            return serendipity(list, targets[static_cast<size_t>(i)], facts, places);
          },
          out);
    }
    if (!facts.users.empty()) {
      add_mean("novelty", lists, k, [&](int64_t, List list) { return novelty(list, facts); }, out);
    }
    if (!facts.categories.empty()) {
      add_mean(
          "diversity", lists, k, [&](int64_t, List list) { return diversity(list, facts); }, out);
    }
  }
  return out;
}

}  // namespace convoy::tasks
