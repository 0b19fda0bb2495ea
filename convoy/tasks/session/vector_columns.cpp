#include "convoy/tasks/session/vector_columns.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

namespace {

const data::ColumnInfo& column_of(const data::ParquetFiles& data, const std::string& name) {
  data.check({{name}, {}, {{name, 0}}});
  return *std::ranges::find(data.columns(), name, &data::ColumnInfo::name);
}

/// Width of the first vector that is not empty; 0 where all are.
int64_t first_width(const data::ParquetFiles& data, const std::string& name) {
  std::vector<data::RowRange> segments;
  for (int64_t group = 0; group < data.num_row_groups(); ++group) {
    segments.push_back({group, 0, data.group_rows()[static_cast<size_t>(group)]});
  }
  const auto stream = data.stream(segments, {{name}, {}, {{name, 0}}});
  for (int64_t row = 0; row < data.num_rows(); ++row) {
    const auto one = stream->next(1);
    const auto& column = one.columns.at(name);
    if (!column.floats.empty()) return column.width;
  }
  return 0;
}

}  // namespace

bool holds_vectors(const formats::Feature& feature) {
  return feature.has_tag("embedding") && !feature.has_tag("categorical");
}

void take_vectors(const data::ParquetFiles& data, const formats::Feature& schema,
                  models::SessionFeature& feature) {
  feature.is_list = column_of(data, feature.name).is_vectors;
  feature.width = first_width(data, feature.name);
  if (feature.width == 0) {
    fail<FileError>("data",
                    "column '{}' of {}, which the schema says holds vectors, has none; expected "
                    "one in each row, or one for each item",
                    feature.name, data.where());
  }
  const bool says = !feature.is_list && schema.min_length == schema.max_length;
  if (!says || schema.max_length == 0 || schema.max_length == feature.width) return;
  fail<FileError>("data",
                  "column '{}' of {} has vectors of {}; the schema's valueCount says {}; mend the "
                  "schema or make the column again",
                  feature.name, data.where(), plural(feature.width, "number"), schema.max_length);
}

void select_vectors(const models::SessionConfig& model, data::Selection& selection) {
  for (const auto& feature : model.features) {
    if (feature.width > 0) selection.widths[feature.name] = feature.width;
  }
}

void check_vectors(const data::ParquetFiles& data, const models::SessionConfig& model) {
  data::Selection selection{{model.item_feature}, {}};  // whose lists say how many there should be
  select_vectors(model, selection);
  if (selection.widths.empty()) return;
  for (const auto& feature : model.features) {
    if (feature.width == 0) continue;
    selection.columns.push_back(feature.name);
    const auto& column = column_of(data, feature.name);
    if (column.is_vectors == feature.is_list) continue;
    const auto kind = [](bool of_items) { return of_items ? "one for each item" : "one a row"; };
    fail<FileError>("data",
                    "column '{}' of {} is {}: vectors, {}; the model was made for {}; make the "
                    "column as in the training data",
                    feature.name, data.where(), column.type, kind(column.is_vectors),
                    kind(feature.is_list));
  }
  data::each_rows(data, selection, [](const data::Rows&) {});
}

}  // namespace convoy::tasks
