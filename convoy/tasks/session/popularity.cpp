#include "convoy/tasks/session/popularity.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_value.h"
#include "convoy/comm/agree.h"
#include "convoy/prepare/items.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/train/scorer.h"

namespace convoy::tasks {

namespace {

/// Occurrences of each id in the training data; empty where nothing tells them.
std::vector<int64_t> counts_of(const PopularityData& data) {
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

/// Whether a file has a number a row by this name.
bool has_ids(const data::ParquetFiles& file, const std::string& name) {
  const auto column = std::ranges::find(file.columns(), name, &data::ColumnInfo::name);
  return column != file.columns().end() && column->readable && !column->is_list &&
         column->kind == data::Column::Int64;
}

std::string name_of(const char* metric, int64_t k) {
  return fmt::format("popularity{}{}_at_{}", train::kBaseline, metric, k);
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

std::map<std::string, double> measure_popularity(const PopularityData& data) {
  const auto counts = counts_of(data);
  if (counts.empty()) return {};
  const data::ParquetFiles valid(data.valid);
  auto rows = data.rows;
  if (has_ids(valid, rows.owner_column) && has_ids(valid, prepare::kNumSeen)) {
    if (!data.seen.empty()) rows.seen = std::make_shared<prepare::SeenLists>(data.seen);
  }
  const auto report =
      prepare::popularity_baseline(counts, valid, data.item_column, data.top_ks, rows);
  std::map<std::string, double> out;
  for (size_t i = 0; i < report.ks.size(); ++i) {
    out[name_of("ndcg", report.ks[i])] = report.ndcg[i];
    out[name_of("recall", report.ks[i])] = report.recall[i];
    out[name_of("mrr", report.ks[i])] = report.mrr[i];
  }
  return out;
}

std::map<std::string, double> popularity_if_any(const PopularityData& data) try {
  return measure_popularity(data);
} catch (const Error& error) {
  report::show_progress(fmt::format("warning: no popularity baseline: {}\n", error.what()), stderr);
  return {};
}

const std::map<std::string, double>& Popularity::metrics(const comm::Group& group) {
  if (!metrics_) {
    const Json found = comm::ask_main(
        group, "count popular items", [this] { return Json(popularity_if_any(data_)); },
        comm::Lasts::Long);
    metrics_ = value_from<std::map<std::string, double>>(found);
  }
  return *metrics_;
}

}  // namespace convoy::tasks
