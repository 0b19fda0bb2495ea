#include "convoy/tasks/session/column_checks.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

void check_times(const data::ParquetFiles& dataset, const std::string& name) {
  const auto column = std::ranges::find(dataset.columns(), name, &data::ColumnInfo::name);
  if (column == dataset.columns().end()) return;  // who reads it says so
  if (column->is_list && column->kind == data::Column::Int64) return;
  fail<FileError>(
      "data",
      "column '{}' of {}, with the times of the events, is {}; expected a list of whole "
      "seconds a row; try convoy data sessions --keep-time",
      name, dataset.where(), column->type);
}

void check_lists(const data::ParquetFiles& dataset, const models::SessionConfig& model) {
  for (const auto& feature : model.features) {
    if (feature.width > 0) continue;  // check_vectors()
    const auto column = std::ranges::find(dataset.columns(), feature.name, &data::ColumnInfo::name);
    if (column == dataset.columns().end() || column->is_list == feature.is_list) continue;
    if (!feature.is_list) {
      fail<FileError>(
          "data",
          "column '{}' of {} is {}; expected one value a row, as the schema has it; try "
          "a schema with a valueCount for it",
          feature.name, dataset.where(), column->type);
    }
    const bool item = feature.name == model.item_feature;
    fail<FileError>("data",
                    "column '{}' of {} is {}: one {} a row; expected a row per session, with a "
                    "list; try {}",
                    feature.name, dataset.where(), column->type, item ? "item" : "value",
                    item ? fmt::format("convoy data sessions {} --item {} --output DIR",
                                       dataset.where(), feature.name)
                         : "data.features without it");
  }
}

void check_answers(const data::ParquetFiles& dataset, const models::SessionTarget& target) {
  const auto column = std::ranges::find(dataset.columns(), target.column, &data::ColumnInfo::name);
  if (column == dataset.columns().end()) {
    std::vector<std::string> known;
    for (const auto& other : dataset.columns()) known.push_back(other.name);
    fail<FileError>("data", "{} has no column '{}', which is to be predicted; got {}{}",
                    dataset.where(), target.column, join(known),
                    did_you_mean(target.column, known));
  }
  if (column->is_list) {
    fail<FileError>("data",
                    "column '{}' of {}, which is to be predicted, is {}; expected one number a row",
                    target.column, dataset.where(), column->type);
  }
  int64_t row = 0;
  data::each_rows(dataset, {{target.column}, {}}, [&](const data::Rows& rows) {
    const auto& values = rows.columns.at(target.column);
    for (int64_t i = 0; i < rows.num_rows; ++i, ++row) {
      const auto at = static_cast<size_t>(i);
      const double value = values.kind == data::Column::Int64
                               ? static_cast<double>(values.ints[at])
                               : static_cast<double>(values.floats[at]);
      if (target.binary ? value == 0 || value == 1 : std::isfinite(value)) continue;
      fail<FileError>("data", "row {} of {} has {} = {}; expected {}", row, dataset.where(),
                      target.column, value,
                      target.binary ? "0 or 1, or regression:COLUMN instead of binary:COLUMN"
                                    : "a finite number");
    }
  });
}

}  // namespace convoy::tasks
