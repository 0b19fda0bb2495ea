#include "convoy/bench/strategies_table.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/report/axis.h"
#include "convoy/report/chart.h"
#include "convoy/train/scorer.h"

namespace convoy::bench {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

std::string decimals(double value, int num_decimals, const char* suffix = "") {
  return std::isfinite(value) ? fmt::format("{:.{}f}{}", value, num_decimals, suffix) : "-";
}

Json measured(double value) {
  return std::isfinite(value) ? Json(value) : Json();
}

/// A chart of one number of each row, by ranks and strategy.
template <class Value>
report::BarChart by_ranks(const std::vector<StrategyRow>& rows, const Value& value) {
  report::BarChart chart;
  std::vector<int> rank_counts;
  std::vector<std::string> strategies;
  for (const StrategyRow& row : rows) {
    if (std::find(rank_counts.begin(), rank_counts.end(), row.ranks) == rank_counts.end()) {
      rank_counts.push_back(row.ranks);
    }
    if (std::find(strategies.begin(), strategies.end(), row.label()) == strategies.end()) {
      strategies.push_back(row.label());
    }
  }
  std::sort(rank_counts.begin(), rank_counts.end());
  for (int ranks : rank_counts) chart.groups.push_back(plural(ranks, "rank"));
  for (const std::string& strategy : strategies) {
    report::BarSeries series{.name = strategy};
    series.values.assign(rank_counts.size(), kUnknown);
    series.labels.assign(rank_counts.size(), "");
    series.notes.assign(rank_counts.size(), "");
    for (const StrategyRow& row : rows) {
      if (row.label() != strategy) continue;
      const size_t group = static_cast<size_t>(
          std::find(rank_counts.begin(), rank_counts.end(), row.ranks) - rank_counts.begin());
      series.values[group] = value(row);
      series.labels[group] = report::short_number(value(row));
      series.notes[group] = decimals(row.speedup, 2, "x");
    }
    chart.series.push_back(std::move(series));
  }
  return chart;
}

report::BarChart without_notes(report::BarChart chart, const std::string& y_title,
                               int num_decimals) {
  chart.y_title = y_title;
  chart.legend = false;
  for (report::BarSeries& series : chart.series) {
    series.notes.clear();
    for (size_t i = 0; i < series.values.size(); ++i) {
      series.labels[i] = decimals(series.values[i], num_decimals);
    }
  }
  return chart;
}

std::string memory_text(const StrategyRow& row) {
  if (row.peak_memory_bytes_per_rank <= 0) return "-";
  const auto host = human_bytes(row.peak_memory_bytes_per_rank);
  if (row.device_memory_bytes_per_rank <= 0) return host;
  return host + ", GPU " + human_bytes(row.device_memory_bytes_per_rank);
}

}  // namespace

std::string StrategyRow::label() const {
  return fmt::format("{}{}{}", strategy,
                     micro_batches > 0 ? fmt::format(", M = {}", micro_batches) : "",
                     learning_rate > 0 ? fmt::format(", {:g}", learning_rate) : "");
}

void fill_speedups(std::vector<StrategyRow>& rows) {
  for (StrategyRow& row : rows) {
    const StrategyRow *first = nullptr, *base = nullptr;
    for (const StrategyRow& other : rows) {
      if (other.learning_rate != row.learning_rate || !other.failure.empty()) continue;
      if (first == nullptr) first = &other;
      const bool better = base == nullptr || other.ranks < base->ranks;
      if (other.strategy == "single" && better) base = &other;
    }
    if (!row.failure.empty()) continue;
    const double base_rate = (base == nullptr ? first : base)->samples_per_second;
    row.speedup = base_rate > 0 ? row.samples_per_second / base_rate : kUnknown;
    row.efficiency = row.ranks > 0 ? row.speedup / row.ranks : kUnknown;
  }
}

double find_metric(const std::map<std::string, double>& metrics, const std::string& name) {
  for (const auto& [key, value] : metrics) {
    if (train::judges_models(key) && lower(key).ends_with(lower(name))) return value;
  }
  return kUnknown;
}

report::Table strategies_table(const std::vector<StrategyRow>& rows) {
  report::Table table;
  table.column("strategy", report::Align::kLeft);
  const bool has_pipelines =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.micro_batches > 0; });
  if (has_pipelines) table.column("micro-batches");
  const bool has_rates =
      std::any_of(rows.begin(), rows.end(), [](const auto& row) { return row.learning_rate > 0; });
  if (has_rates) table.column("learning rate");
  for (const char* title : {"ranks", "threads per rank", "time", "samples/s", "speed-up",
                            "efficiency", "collectives/step", "bytes/step", "peak memory/rank",
                            "evaluation", "final loss", "NDCG@10", "Recall@10"}) {
    table.column(title);
  }
  for (const StrategyRow& row : rows) {
    const bool failed = !row.failure.empty();
    std::vector<std::string> cells{
        row.strategy,
        fmt::format("{}", row.ranks),
        fmt::format("{}", row.threads),
        failed ? "failed" : human_seconds(row.seconds),
        failed ? "-" : report::short_number(row.samples_per_second),
        decimals(row.speedup, 2, "x"),
        decimals(row.efficiency * 100, 0, "%"),
        std::isfinite(row.collectives_per_step) && !failed
            ? report::short_number(row.collectives_per_step)
            : "-",
        std::isfinite(row.bytes_per_step) && !failed ? human_bytes(row.bytes_per_step) : "-",
        memory_text(row),
        std::isfinite(row.eval_seconds) ? human_seconds(row.eval_seconds) : "-",
        decimals(row.loss, 4),
        decimals(find_metric(row.metrics, "ndcg@10"), 4),
        decimals(find_metric(row.metrics, "recall@10"), 4)};
    if (has_rates) {
      cells.insert(cells.begin() + 1,
                   row.learning_rate > 0 ? fmt::format("{:g}", row.learning_rate) : "-");
    }
    if (has_pipelines) {
      cells.insert(cells.begin() + 1,
                   row.micro_batches > 0 ? fmt::format("{}", row.micro_batches) : "-");
    }
    table.row(cells);
  }
  return table;
}

Json strategies_json(const std::vector<StrategyRow>& rows) {
  Json list = Json::array();
  for (const StrategyRow& row : rows) {
    Json metrics = Json::object();
    for (const auto& [name, value] : row.metrics) metrics[name] = measured(value);
    Json entry{{"strategy", row.strategy},
               {"ranks", row.ranks},
               {"threads", row.threads},
               {"seconds", measured(row.seconds)},
               {"samples_per_second", measured(row.samples_per_second)},
               {"speedup", measured(row.speedup)},
               {"efficiency", measured(row.efficiency)},
               {"collectives_per_step", measured(row.collectives_per_step)},
               {"bytes_per_step", measured(row.bytes_per_step)},
               {"peak_memory_bytes_per_rank", row.peak_memory_bytes_per_rank},
               {"eval_seconds", measured(row.eval_seconds)},
               {"loss", measured(row.loss)},
               {"metrics", std::move(metrics)}};
    if (!row.failure.empty()) {
      for (const char* key : {"seconds", "samples_per_second", "collectives_per_step",
                              "bytes_per_step", "peak_memory_bytes_per_rank"}) {
        entry[key] = nullptr;
      }
      entry["failure"] = row.failure;
    }
    if (row.device_memory_bytes_per_rank > 0) {
      entry["device_memory_bytes_per_rank"] = row.device_memory_bytes_per_rank;
    }
    if (row.learning_rate > 0) entry["learning_rate"] = row.learning_rate;
    if (row.micro_batches > 0) entry["micro_batches"] = row.micro_batches;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string strategies_svg(const std::vector<StrategyRow>& all, const std::string& title,
                           const std::string& subtitle) {
  std::vector<StrategyRow> rows;
  std::copy_if(all.begin(), all.end(), std::back_inserter(rows),
               [](const auto& row) { return row.failure.empty(); });
  constexpr double kWidth = 760;
  constexpr double kTop = 360;
  constexpr double kBelow = 220;
  const auto loss = [](const StrategyRow& row) { return row.loss; };
  const auto ndcg = [](const StrategyRow& row) { return find_metric(row.metrics, "ndcg@10"); };
  const auto known = [&](const auto& value) {
    return std::any_of(rows.begin(), rows.end(),
                       [&](const auto& row) { return std::isfinite(value(row)); });
  };
  std::vector<report::BarChart> below;
  if (known(loss))
    below.push_back(without_notes(by_ranks(rows, loss), "final loss (lower is better)", 3));
  if (known(ndcg))
    below.push_back(without_notes(by_ranks(rows, ndcg), "NDCG@10 (higher is better)", 4));

  report::Svg svg(kWidth, kTop + (below.empty() ? 0 : kBelow));
  report::BarChart speed =
      by_ranks(rows, [](const StrategyRow& row) { return row.samples_per_second; });
  speed.title = title;
  speed.subtitle = subtitle;
  speed.y_title = "samples per second, and how many times one device";
  draw(svg, {0, 0, kWidth, kTop}, speed);
  for (size_t i = 0; i < below.size(); ++i) {
    const double width = kWidth / static_cast<double>(below.size());
    draw(svg, {static_cast<double>(i) * width, kTop, width, kBelow}, below[i]);
  }
  return svg.to_string();
}

}  // namespace convoy::bench
