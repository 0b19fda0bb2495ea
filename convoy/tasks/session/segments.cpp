#include "convoy/tasks/session/segments.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "convoy/base/text.h"
#include "convoy/report/table.h"
#include "convoy/tasks/metrics_table.h"
#include "convoy/tasks/session/ranking_metrics.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

using Values = std::map<std::string, double>;

/// Largest lengths of the first two of three ranges.
struct Ranges {
  int64_t first, second;

  std::string range(int which) const {
    if (which == 0) return fmt::format("up_to_{}", first);
    return which == 1 ? fmt::format("{}_to_{}", first + 1, second) : fmt::format("over_{}", second);
  }
  int of(int64_t length) const { return length <= first ? 0 : length <= second ? 1 : 2; }
};

constexpr Ranges kHistories{5, 20}, kSessions{3, 10};

/// Flags by id of the most frequent fifth of the candidates.
std::vector<bool> head_items(const std::vector<int64_t>& counts,
                             const std::vector<bool>& candidates) {
  constexpr size_t kFifth = 5;
  std::vector<size_t> ids;
  for (size_t id = 1; id < counts.size(); ++id) {
    if (candidates.empty() || (id < candidates.size() && candidates[id])) ids.push_back(id);
  }
  std::ranges::stable_sort(ids, std::greater<>(), [&](size_t id) { return counts[id]; });
  std::vector<bool> out(counts.size(), false);
  for (size_t i = 0; i < (ids.size() + kFifth - 1) / kFifth; ++i) out[ids[i]] = true;
  return out;
}

/// Whether rows are sessions of persons who had other sessions before.
bool has_sessions(const std::vector<TargetRow>& rows) {
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.length);
  return std::ranges::any_of(
      rows, [&](const TargetRow& row) { return row.length < std::min(row.before, longest); });
}

std::string title_of(const Ranges& ranges, int which, const char* what) {
  auto text = ranges.range(which);
  std::ranges::replace(text, '_', ' ');
  return fmt::format("{} {}", text, what);
}

}  // namespace

std::vector<RowSegment> segments_of(const std::vector<TargetRow>& rows,
                                    const std::vector<int64_t>& counts,
                                    const std::vector<bool>& candidates) {
  std::vector<RowSegment> out;
  const auto cut = [&](const Ranges& ranges, const char* name, const char* what, auto member) {
    for (const int which : {0, 1, 2}) {
      RowSegment segment{
          fmt::format("{}_{}", name, ranges.range(which)), title_of(ranges, which, what), {}};
      for (size_t i = 0; i < rows.size(); ++i) {
        if (ranges.of(rows[i].*member) == which) segment.rows.push_back(i);
      }
      out.push_back(std::move(segment));
    }
  };
  cut(kHistories, "history", "events of the person before", &TargetRow::before);
  if (has_sessions(rows)) {
    cut(kSessions, "session", "items of the session before", &TargetRow::length);
  }
  const auto none = [](const RowSegment& segment) { return segment.rows.empty(); };
  if (counts.empty()) {
    std::erase_if(out, none);
    return out;
  }
  const auto head = head_items(counts, candidates);
  RowSegment frequent{"head_items", "head items, the most frequent 20 %", {}};
  RowSegment rare{"tail_items", "tail items, the others", {}};
  RowSegment unknown{"unknown_items", "items that training has not", {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto id = static_cast<size_t>(rows[i].target);
    const bool known =
        id < counts.size() && (candidates.empty() || (id < candidates.size() && candidates[id]));
    (!known ? unknown : head[id] ? frequent : rare).rows.push_back(i);
  }
  for (auto* segment : {&frequent, &rare, &unknown}) out.push_back(std::move(*segment));
  std::erase_if(out, none);
  return out;
}

std::vector<Values> segment_metrics(const std::vector<RowSegment>& segments,
                                    const std::vector<int64_t>& ranks,
                                    const std::vector<int64_t>& top_ks) {
  std::vector<Values> out;
  for (const auto& segment : segments) {
    std::vector<int64_t> own;
    for (const size_t row : segment.rows) own.push_back(ranks[row]);
    RankingMetrics metrics(top_ks);
    metrics.add(at::tensor(own, at::kLong));
    out.push_back(metrics.values(""));
    out.back()["rows"] = static_cast<double>(own.size());
  }
  return out;
}

std::string segments_table(const std::vector<RowSegment>& segments,
                           const std::vector<Values>& metrics, const std::vector<int64_t>& top_ks) {
  constexpr int64_t kUsual = 10;
  const bool has_usual = std::ranges::find(top_ks, kUsual) != top_ks.end();
  const int64_t k = has_usual ? kUsual : top_ks.front();
  report::Table table;
  table.column("rows by segment", report::Align::kLeft).column("rows");
  for (const auto& [name, title] : kRankingMetrics) {
    table.column(fmt::format("{}@{}", title, k), report::Align::kLeft);
  }
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& segment = segments[i];
    const auto& entry = metrics[i];
    std::vector<std::string> texts{segment.title, human_count(std::ssize(segment.rows))};
    for (const auto& [name, title] : kRankingMetrics) {
      const auto key = fmt::format("{}_at_{}", name, k);
      const auto error = entry.find(key + train::kStandardError);
      auto text = fmt::format("{:.4f}", entry.at(key));
      if (error != entry.end()) text += fmt::format(" +- {:.4f}", error->second);
      texts.push_back(std::move(text));
    }
    table.row(std::move(texts));
  }
  return table.to_text();
}

}  // namespace convoy::tasks
