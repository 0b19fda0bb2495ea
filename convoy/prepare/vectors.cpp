#include "convoy/prepare/vectors.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/data/table_source.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/events_decode.h"

namespace convoy::prepare {

namespace {

constexpr const char* kRawId = "raw_id";

/// Name among `names` that is `called` so, else the only one; null where there are others, or none.
const std::string* one_of(const std::vector<std::string>& names, const std::string& called) {
  const auto named = std::ranges::find(names, called);
  if (named != names.end()) return &*named;
  return names.size() == 1 ? &names.front() : nullptr;
}

std::vector<std::string> read_all_raw_ids(const std::filesystem::path& file,
                                          const std::string& column) {
  const data::TableSource source(file, {});
  std::vector<std::string> out;
  const ColumnPlace place{column, file.string(), "a column of raw ids"};
  source.read({source.require(column, place.flag)}, {nullptr},
              [&](const arrow::RecordBatch& batch) {
                each_text(
                    *batch.column(0), place, [&](std::string_view text) { out.emplace_back(text); },
                    [&] {
                      fail<FileError>("prepare", "row {} of {} has no {}; expected a raw id",
                                      out.size(), file.string(), column);
                    });
              },
              {});
  return out;
}

}  // namespace

Vectors read_vectors(const std::filesystem::path& file) {
  const data::ParquetFiles table(file.string());
  std::vector<std::string> all, ids, lists;
  for (const auto& column : table.columns()) {
    all.push_back(fmt::format("{} ({})", column.name, column.type));
    const bool list = column.readable && column.is_list && column.kind == data::Column::Float32;
    (list ? lists : ids).push_back(column.name);
  }
  const auto* id = one_of(ids, kRawId);
  const auto* list = one_of(lists, "embedding");
  if (id == nullptr || list == nullptr) {
    fail<FileError>("prepare",
                    "{} has the columns {}; expected one of raw ids ({}) and one of lists of "
                    "fractions (embedding)",
                    file.string(), join(all), kRawId);
  }
  Vectors out;
  out.raw_ids = read_all_raw_ids(file, *id);
  data::each_rows(table, {{*list}, {}}, [&](const data::Rows& rows) {
    const auto& column = rows.columns.at(*list);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t width = column.end(row) - column.begin(row);
      if (out.values.empty()) out.width = width;
      if (width > 0 && width == out.width) {
        out.values.insert(out.values.end(), column.floats.begin() + column.begin(row),
                          column.floats.begin() + column.end(row));
        continue;
      }
      fail<FileError>(
          "prepare", "the {} of '{}' in {} has {}; expected {}", *list,
          out.raw_ids.at(out.values.size() / static_cast<size_t>(std::max<int64_t>(1, out.width))),
          file.string(), plural(width, "number"),
          out.values.empty() ? "at least one" : fmt::format("{} as before", out.width));
    }
  });
  if (out.values.empty()) fail<FileError>("prepare", "{} has no rows", file.string());
  return out;
}

}  // namespace convoy::prepare
