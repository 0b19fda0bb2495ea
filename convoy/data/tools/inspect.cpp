#include "convoy/data/tools/inspect.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/padding.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/formats/schema.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;

std::optional<formats::Schema> schema_beside(const ParquetFiles& data) {
  const fs::path path = formats::schema_in(data.files().front().path().parent_path());
  std::error_code code;
  if (!fs::exists(path, code)) return std::nullopt;
  return formats::Schema::load(path);
}

const ColumnInfo* find_readable(const ParquetFiles& data, const std::string& name) {
  for (const ColumnInfo& column : data.columns()) {
    if (column.name == name && column.readable) return &column;
  }
  return nullptr;
}

/// Column of the items: the schema's, else the usual name.
std::string item_column(const std::optional<formats::Schema>& schema) {
  if (schema) {
    for (const formats::Feature& feature : schema->features) {
      if (feature.has_tag("item_id")) return feature.name;
    }
  }
  return formats::kItemColumn;
}

/// Column of the lists whose lengths are shown: the items, else the first list.
std::string measured_column(const ParquetFiles& data, const ColumnInfo* items) {
  if (items != nullptr && items->is_list) return items->name;
  for (bool integers : {true, false}) {
    for (const ColumnInfo& column : data.columns()) {
      if (column.readable && column.is_list && (column.kind == Column::Int64) == integers) {
        return column.name;
      }
    }
  }
  return "";
}

void measure(const ParquetFiles& data, InspectReport& report, const ProgressFn& progress) {
  Selection selection;
  for (const std::string& name : {report.list_column, report.id_column}) {
    if (!name.empty() && !std::ranges::count(selection.columns, name)) {
      selection.columns.push_back(name);
    }
  }
  if (selection.columns.empty()) return;
  report.min_length = std::numeric_limits<int64_t>::max();
  int64_t total = 0, first = 0;
  const bool of_items = report.list_column == report.id_column && !report.id_column.empty();
  each_rows(
      data, selection,
      [&](const Rows& rows) {
        for (int64_t row = 0; !report.list_column.empty() && row < rows.num_rows; ++row) {
          const Column& column = rows.columns.at(report.list_column);
          const int64_t length = column.end(row) - column.begin(row);
          report.min_length = std::min(report.min_length, length);
          report.max_length = std::max(report.max_length, length);
          report.num_short_rows += length < 2;
          total += length;
          if (!of_items || !has_inner_padding(column, row)) continue;
          if (report.num_wrongly_padded++ == 0) report.wrongly_padded = row_text(data, first + row);
        }
        first += rows.num_rows;
        if (report.id_column.empty()) return;
        for (int64_t id : rows.columns.at(report.id_column).ints) {
          report.min_id = std::min(report.min_id.value_or(id), id);
          report.max_id = std::max(report.max_id.value_or(id), id);
        }
      },
      progress);
  if (report.max_length == 0) report.min_length = 0;
  report.mean_length =
      static_cast<double>(total) / static_cast<double>(std::max<int64_t>(1, data.num_rows()));
}

void advise(const ParquetFiles& data, InspectReport& report) {
  const std::string file = data.files().front().path().string();
  const auto ranks = static_cast<int64_t>(report.ranks.size());
  if (report.num_rows < ranks) {
    report.advice.push_back(
        fmt::format("{} ranks but only {} rows; use fewer ranks", ranks, report.num_rows));
  } else if (ranks > 1) {
    auto [low, high] = std::minmax_element(
        report.ranks.begin(), report.ranks.end(),
        [](const DealtShare& a, const DealtShare& b) { return a.group_batches < b.group_batches; });
    const bool uneven = low->group_batches != high->group_batches;
    if (uneven && report.num_files == 1) {
      report.advice.push_back(fmt::format(
          "dealt by row groups the ranks get {} to {} batches; if you train with data.partition = "
          "\"row_groups\" or with Transformers4Rec, try `convoy data repartition {} --for-ranks "
          "{}`",
          low->group_batches, high->group_batches, file, ranks));
    } else if (uneven) {
      report.advice.push_back(
          "dealt by row groups the ranks get unequal batches; keep "
          "data.partition = \"rows\", or repartition each file");
    }
  }
  if (report.max_id && report.schema_max_id && *report.max_id > *report.schema_max_id) {
    report.advice.push_back(
        fmt::format("ids in '{}' reach {} but the schema ends at {}; training will refuse them",
                    report.id_column, *report.max_id, *report.schema_max_id));
  }
  if (report.min_id && *report.min_id < 0) {
    report.advice.push_back(
        fmt::format("ids in '{}' begin at {}, below 0; training will refuse them", report.id_column,
                    *report.min_id));
  }
  if (report.num_wrongly_padded > 0) {
    report.advice.push_back(fmt::format(
        "{} 0, which is padding, before an item ({} is the first); training will refuse {}: "
        "padding belongs at the end of a row",
        report.num_wrongly_padded == 1 ? "1 row has"
                                       : human_count(report.num_wrongly_padded) + " rows have",
        report.wrongly_padded, report.num_wrongly_padded == 1 ? "it" : "them"));
  }
  if (!report.id_column.empty() && report.id_column != report.list_column) {
    report.advice.push_back(
        fmt::format("'{}' holds one item a row, and training wants the items of a session as a "
                    "list; try `convoy data sessions {} --item {} --output DIR`",
                    report.id_column, file, report.id_column));
  } else if (report.num_short_rows > 0 && report.list_column == report.id_column) {
    report.advice.push_back(fmt::format("{} rows have fewer than 2 items and so nothing to predict",
                                        human_count(report.num_short_rows)));
  }
  if (data.num_row_groups() == 1 && report.num_rows > 500000) {
    report.advice.push_back(
        fmt::format("one row group of {} rows shuffles badly; try `convoy data repartition {} "
                    "--row-group-size 50000`",
                    human_count(report.num_rows), file));
  }
}

}  // namespace

std::vector<DealtShare> rank_shares(const std::vector<int64_t>& group_rows, int64_t ranks,
                                    int64_t batch_size) {
  const int64_t rows = std::accumulate(group_rows.begin(), group_rows.end(), int64_t{0});
  const auto groups = static_cast<int64_t>(group_rows.size());
  const int64_t step = ranks * batch_size;
  const int64_t rest = rows % step;
  const int64_t block = (groups + ranks - 1) / ranks;
  std::vector<DealtShare> shares(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    DealtShare& share = shares[static_cast<size_t>(rank)];
    // The last, short step is dealt row by row.
    share.rows = rows / step * batch_size + (rest > rank ? (rest - rank + ranks - 1) / ranks : 0);
    share.batches = rows / step + (rest > 0);
    for (int64_t g = rank * block; g < std::min(groups, (rank + 1) * block); ++g) {
      ++share.groups;
      share.group_rows += group_rows[static_cast<size_t>(g)];
    }
    share.group_batches = (share.group_rows + batch_size - 1) / batch_size;
  }
  return shares;
}

InspectReport inspect(const std::string& where, const InspectOptions& options,
                      const ProgressFn& progress) {
  constexpr int64_t kMost = 1 << 20;
  if (options.ranks < 1 || options.ranks > kMost) {
    fail<UsageError>("prepare", "--ranks is {}; expected 1 to {}", options.ranks, kMost);
  }
  if (options.batch_size < 1 || options.batch_size > kMost * 1024) {
    fail<UsageError>("prepare", "--batch-size is {}; expected at least 1", options.batch_size);
  }
  const ParquetFiles data(where);
  const auto schema = schema_beside(data);
  InspectReport report;
  report.where = where;
  report.num_files = static_cast<int64_t>(data.files().size());
  report.num_rows = data.num_rows();
  for (const ParquetFile& file : data.files()) report.bytes += file.file_bytes();
  report.num_groups = data.num_row_groups();
  if (report.num_groups > 0) {
    std::vector<int64_t> sorted = data.group_rows();
    std::sort(sorted.begin(), sorted.end());
    report.min_group_rows = sorted.front();
    report.median_group_rows = sorted[sorted.size() / 2];
    report.max_group_rows = sorted.back();
  }
  for (const ColumnInfo& column : data.columns()) {
    const formats::Feature* feature = schema ? schema->find(column.name) : nullptr;
    report.columns.push_back(
        {column.name, column.type, feature ? feature->tags : std::vector<std::string>{}});
  }
  const ColumnInfo* items = find_readable(data, item_column(schema));
  if (items != nullptr) report.id_column = items->name;
  report.list_column = measured_column(data, items);
  measure(data, report, progress);
  const formats::Feature* item = schema ? schema->find(report.id_column) : nullptr;
  if (item && item->int_domain) report.schema_max_id = item->int_domain->max;
  report.batch_size = options.batch_size;
  report.ranks = rank_shares(data.group_rows(), options.ranks, options.batch_size);
  advise(data, report);
  return report;
}

}  // namespace convoy::data
