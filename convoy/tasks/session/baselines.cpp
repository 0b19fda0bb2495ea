#include "convoy/tasks/session/baselines.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_value.h"
#include "convoy/comm/agree.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/prepare/items.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/session/baselines/ease.h"
#include "convoy/tasks/session/baselines/item_knn.h"
#include "convoy/tasks/session/baselines/target_ranks.h"
#include "convoy/tasks/session/ranking_metrics.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

std::string begin_of(const std::string& baseline) {
  return baseline + train::kBaseline;
}

/// Returns data.rows with the whole histories beside them.
prepare::RankedRows with_histories(const BaselineData& data, const data::ParquetFiles& valid) {
  auto out = data.rows;
  const bool told =
      data::has_numbers(valid, out.owner_column) && data::has_numbers(valid, prepare::kNumSeen);
  if (told && !data.seen.empty()) out.seen = std::make_shared<prepare::SeenLists>(data.seen);
  return out;
}

std::map<std::string, double> measure_popularity(const BaselineData& data) {
  const auto counts = item_counts(data);
  if (counts.empty()) return {};
  const data::ParquetFiles valid(data.valid);
  const auto rows = data.rows.exclude_seen ? with_histories(data, valid) : data.rows;
  const auto report =
      prepare::popularity_baseline(counts, valid, data.item_column, data.top_ks, rows);
  std::map<std::string, double> out;
  const auto name_of = [](const char* metric, int64_t k) {
    return fmt::format("{}{}_at_{}", begin_of(kPopularity), metric, k);
  };
  for (size_t i = 0; i < report.ks.size(); ++i) {
    out[name_of("ndcg", report.ks[i])] = report.ndcg[i];
    out[name_of("recall", report.ks[i])] = report.recall[i];
    out[name_of("mrr", report.ks[i])] = report.mrr[i];
  }
  return out;
}

std::unique_ptr<ItemWeights> fit(const Baseline& baseline, const Interactions& interactions) {
  if (baseline.name == kEase) return fit_ease(interactions, baseline.number);
  return fit_item_knn(interactions, static_cast<int64_t>(baseline.number));
}

/// Metrics of a baseline whose item weights are fitted to the training data.
std::map<std::string, double> measure_fitted(const Baseline& baseline, const BaselineData& data) {
  if (data.train.empty()) {
    fail<FileError>("tasks", "the data that the run was trained on is not there any more");
  }
  check_memory_of({baseline}, data.num_items, machine::available_memory());
  const data::ParquetFiles train(data.train), valid(data.valid);
  const auto owner = data::has_numbers(train, data.rows.owner_column) ? data.rows.owner_column : "";
  const auto weights =
      fit(baseline, read_interactions(train, data.item_column, owner, data.num_items));
  const auto ranks =
      target_ranks(*weights, data.num_items, valid, data.item_column, with_histories(data, valid));
  RankingMetrics metrics(data.top_ks);
  metrics.add(at::tensor(ranks, at::kLong));
  auto out = metrics.values(begin_of(baseline.name));
  std::erase_if(out, [](const auto& metric) {  // the same as MRR
    return metric.first.find("avg_precision") != std::string::npos;
  });
  return out;
}

}  // namespace

std::vector<int64_t> kept_counts(const std::filesystem::path& folder) {
  const auto file = kept_file(folder, kCountsFile);
  if (file.empty()) return {};
  const auto json = parse_json(read_file(file), file.string());
  try {
    auto out = value_from<std::vector<int64_t>>(json.at("counts"));
    const auto negative = std::ranges::find_if(out, [](int64_t count) { return count < 0; });
    if (negative == out.end()) return out;
    fail<FileError>("tasks", "{} has {} as a count; expected a whole number", file.string(),
                    *negative);
  } catch (const Json::exception& error) {
    fail<FileError>("tasks", "{} does not count the items of a training: {}", file.string(),
                    json_trouble(error));
  }
}

std::string to_json(const std::vector<int64_t>& counts) {
  return Json{{"counts", counts}}.dump() + "\n";
}

std::vector<int64_t> item_counts(const BaselineData& data) {
  if (!data.counts.empty()) return data.counts;
  if (!data.train.empty()) {
    try {
      return prepare::count_items(data::ParquetFiles(data.train), data.item_column, data.num_items);
    } catch (const Error&) {  // moved since, or of another model
    }
  }
  const auto names = prepare::ItemNames::load(data.items);
  if (names.size() == 0) return {};
  std::vector<int64_t> counts(static_cast<size_t>(data.num_items) + 1);
  for (int64_t id = 1; id <= data.num_items; ++id) {
    counts[static_cast<size_t>(id)] = names.count(id);
  }
  return counts;
}

std::map<std::string, double> measure_baselines(const BaselineData& data) {
  std::map<std::string, double> out;
  for (const auto& baseline : data.baselines) {
    out.merge(baseline.name == kPopularity ? measure_popularity(data)
                                           : measure_fitted(baseline, data));
  }
  return out;
}

std::map<std::string, double> baselines_if_any(const BaselineData& data) {
  std::map<std::string, double> out;
  for (const auto& baseline : data.baselines) {
    auto one = data;
    one.baselines = {baseline};
    try {
      out.merge(measure_baselines(one));
    } catch (const Error& error) {
      report::show_progress(
          fmt::format("warning: no {} baseline: {}\n", baseline.name, error.what()), stderr);
    }
  }
  return out;
}

const std::map<std::string, double>& Baselines::metrics(const comm::Group& group) {
  if (!metrics_) {
    const Json found = comm::ask_main(
        group, "measure baselines", [this] { return Json(baselines_if_any(data_)); },
        comm::Lasts::Long);
    metrics_ = value_from<std::map<std::string, double>>(found);
  }
  return *metrics_;
}

}  // namespace convoy::tasks
