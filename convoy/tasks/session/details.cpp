#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/nn/losses/left_out.h"
#include "convoy/tasks/metrics_table.h"
#include "convoy/tasks/session/catalog_facts.h"
#include "convoy/tasks/session/list_metrics.h"
#include "convoy/tasks/session/row_owners.h"
#include "convoy/tasks/session/segments.h"
#include "convoy/tasks/session/target_rows.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

namespace {

/// Number of each row's person, from 0 on.
std::vector<int64_t> persons_of(const std::vector<TargetRow>& rows) {
  std::map<int64_t, int64_t> numbers;
  std::vector<int64_t> out;
  for (const auto& row : rows) {
    out.push_back(numbers.emplace(row.owner, std::ssize(numbers)).first->second);
  }
  return out;
}

/// Indices of evaluated rows among the target rows; rows that are not evaluated are misses.
std::vector<size_t> places_of(const EvaluatedRows& evaluated, const std::vector<TargetRow>& rows) {
  std::vector<size_t> out;
  size_t at = 0;
  for (const int64_t row : evaluated.rows) {
    while (at < rows.size() && rows[at].row < row) ++at;
    internal_check(at < rows.size() && rows[at].row == row, "tasks", "row {} has no target", row);
    out.push_back(at);
  }
  return out;
}

}  // namespace

void SessionTask::ask_details(const EvaluationDetails& details) {
  details_ = details;
  if (!details.any()) return;
  const auto ks = arguments_.ranking.top_k_values();
  evaluated_ = std::make_shared<EvaluatedRows>();
  if (details.compared) arguments_.ranking.baselines = {"none"};  // no comparison shows them
  if (details.lists) evaluated_->list_size = *std::ranges::max_element(ks);
  arguments_.model.eval_list = evaluated_->list_size;
}

void SessionTask::add_list_metrics(const BaselineData& data, const std::vector<int64_t>& targets,
                                   train::Metrics& metrics, std::vector<std::string>& notes) const {
  CatalogFacts facts{.counts = item_counts(data)};
  const auto& known = known_->items.by_id();
  facts.num_items = std::ranges::count(known.begin() + 1, known.end(), true);
  try {
    if (data.train.empty()) fail<FileError>("tasks", "the run's training data are not there");
    read_catalog_facts(data.train, data.item_column, owner_column(schema_), schema_,
                       data.num_items + 1, facts);
  } catch (const Error& error) {
    notes.push_back(fmt::format("no novelty and no diversity: {}", error.what()));
    facts.users.clear();
    facts.categories.clear();
  }
  for (const auto& [name, value] : list_metrics(*evaluated_, targets, data.top_ks, facts)) {
    metrics["eval_" + name] = value;
  }
}

EvaluationReport SessionTask::report_details(const std::string& data, train::Metrics& metrics) {
  EvaluationReport out;
  if (!evaluated_) return out;
  const auto popular = baseline_data(data);
  const auto counts = item_counts(popular);
  if (counts.empty() && (details_.lists || details_.segments)) {
    out.notes.emplace_back(
        "nothing tells how often training had each item: no popularity, no serendipity, no head "
        "and tail items");
  }
  const auto targets =
      read_target_rows(data, popular.item_column, owner_column(schema_), popular.rows.max_length);
  auto& rows = out.rows;
  rows = {.run = folder_.string(),
          .data = data,
          .exclude_seen = *excludes_,
          .top_ks = popular.top_ks,
          .persons = persons_of(targets)};
  rows.ranks.assign(targets.size(), nn::kNoRank);
  std::vector<int64_t> of_lists;
  const auto places = places_of(*evaluated_, targets);
  for (size_t i = 0; i < places.size(); ++i) {
    rows.ranks[places[i]] = evaluated_->ranks[i];
    of_lists.push_back(targets[places[i]].target);
  }
  if (details_.compared) rows.keys = keys_of(targets, data);
  if (details_.lists) add_list_metrics(popular, of_lists, metrics, out.notes);
  if (details_.bootstrap > 0 && !details_.compared && !targets.empty()) {
    const auto intervals = bootstrap(rows.clusters(), details_.bootstrap, details_.seed);
    out.text += "\n" + indented(intervals_table(intervals, rows));
    auto& told = out.json["eval_intervals"] = Json::object();
    const auto names = rows.metrics();
    for (size_t m = 0; m < names.size(); ++m)
      told[names[m]] = {intervals[m].low, intervals[m].high};
  }
  if (details_.segments) {
    const auto segments = segments_of(targets, counts, known_->seen_items().by_id());
    const auto of_segments = segment_metrics(segments, rows.ranks, popular.top_ks);
    out.text += "\n" + indented(segments_table(segments, of_segments, popular.top_ks));
    auto& told = out.json["eval_segments"] = Json::object();
    for (size_t i = 0; i < segments.size(); ++i) told[segments[i].name] = of_segments[i];
  }
  return out;
}

}  // namespace convoy::tasks
