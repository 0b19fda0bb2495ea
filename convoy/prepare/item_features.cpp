#include "convoy/prepare/item_features.h"

#include <arrow/builder.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_number.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/data/parquet_files.h"
#include "convoy/data/parquet_writer.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::prepare {

namespace fs = std::filesystem;

namespace {

constexpr ItemKind kItemKinds[] = {ItemKind::Categorical, ItemKind::Continuous, ItemKind::Vector};

void must_append(const arrow::Status& status) {
  internal_check(status.ok(), "prepare", "{}", status.ToString());
}

/// Lists of a feature's values, one for each item.
std::shared_ptr<arrow::Array> lists_of(const ItemFeature& feature) {
  const bool categorical = feature.kind == ItemKind::Categorical;
  std::shared_ptr<arrow::ArrayBuilder> values;
  if (categorical) {
    values = std::make_shared<arrow::Int64Builder>();
  } else {
    values = std::make_shared<arrow::FloatBuilder>();
  }
  arrow::ListBuilder lists(arrow::default_memory_pool(), values);
  for (int64_t id = 1; id <= feature.num_items(); ++id) {
    must_append(lists.Append());
    for (const int64_t value : feature.ids_of(id)) {
      must_append(static_cast<arrow::Int64Builder&>(*values).Append(value));
    }
    for (const float number : feature.numbers_of(id)) {
      must_append(static_cast<arrow::FloatBuilder&>(*values).Append(number));
    }
  }
  std::shared_ptr<arrow::Array> out;
  must_append(lists.Finish(&out));
  return out;
}

std::shared_ptr<arrow::Array> item_ids(int64_t num_items) {
  arrow::Int64Builder ids;
  for (int64_t id = 1; id <= num_items; ++id) must_append(ids.Append(id));
  std::shared_ptr<arrow::Array> out;
  must_append(ids.Finish(&out));
  return out;
}

Json info_of_feature(const ItemFeature& feature) {
  Json out{{"name", feature.name}, {"kind", name_of(feature.kind)}};
  if (feature.kind == ItemKind::Categorical) out["values"] = feature.values;
  if (feature.kind == ItemKind::Vector) out["width"] = feature.width;
  if (!feature.scale.is_plain()) out["scale"] = feature.scale.steps();
  return out;
}

ItemFeature feature_of(const Json& json, const std::string& where) {
  ItemFeature out{.name = json.at("name").get<std::string>()};
  const auto kind = json.at("kind").get<std::string>();
  const auto found =
      std::ranges::find_if(kItemKinds, [&](ItemKind k) { return name_of(k) == kind; });
  if (found == std::end(kItemKinds)) {
    fail<FileError>("prepare", "{} has the kind '{}' for '{}'; expected one of this version", where,
                    kind, out.name);
  }
  out.kind = *found;
  if (out.kind == ItemKind::Categorical) {
    out.values = value_from<std::vector<std::string>>(json.at("values"));
  }
  if (out.kind == ItemKind::Vector) {
    out.width = whole_number<int64_t>(json.at("width")).value_or(0);
    if (out.width < 1) {
      fail<FileError>("prepare", "{} has a vector '{}' without numbers", where, out.name);
    }
  }
  for (const auto& step : json.value("scale", Json::array())) {
    out.scale.add(step.get<std::string>());
  }
  return out;
}

/// Takes the values of the next rows of the table.
void take_rows(const data::Rows& rows, const std::string& file, ItemFeature& feature) {
  const auto& column = rows.columns.at(feature.name);
  const bool categorical = feature.kind == ItemKind::Categorical;
  const auto kind = categorical ? data::Column::Int64 : data::Column::Float32;
  if (!column.is_list || column.kind != kind) {
    fail<FileError>("prepare",
                    "{} has no lists of {} as '{}', which {} describes; try convoy data "
                    "sessions --items again",
                    file, categorical ? "whole numbers" : "numbers", feature.name,
                    kItemFeaturesInfo);
  }
  for (int64_t row = 0; row < rows.num_rows; ++row) {
    const auto begin = column.begin(row), end = column.end(row);
    const auto last = static_cast<int64_t>(feature.values.size());
    const auto fits = [&](int64_t id) { return id >= 1 && id <= last; };
    const bool right =
        categorical ? std::all_of(column.ints.begin() + begin, column.ints.begin() + end, fits)
                    : begin == end || end - begin == feature.width;
    if (!right) {
      fail<FileError>("prepare",
                      "{} has a value of '{}' that {} does not describe; try convoy data sessions "
                      "--items again",
                      file, feature.name, kItemFeaturesInfo);
    }
    if (categorical) {
      feature.ids.insert(feature.ids.end(), column.ints.begin() + begin, column.ints.begin() + end);
    } else {
      feature.numbers.insert(feature.numbers.end(), column.floats.begin() + begin,
                             column.floats.begin() + end);
    }
    feature.end_item();
  }
}

}  // namespace

const char* name_of(ItemKind kind) {
  switch (kind) {
    case ItemKind::Categorical:
      return "categorical";
    case ItemKind::Continuous:
      return "continuous";
    case ItemKind::Vector:
      break;
  }
  return "vector";
}

std::span<const int64_t> ItemFeature::ids_of(int64_t id) const {
  if (kind != ItemKind::Categorical) return {};
  return std::span(ids).subspan(static_cast<size_t>(begin(id)),
                                static_cast<size_t>(end(id) - begin(id)));
}

std::span<const float> ItemFeature::numbers_of(int64_t id) const {
  if (kind == ItemKind::Categorical) return {};
  return std::span(numbers).subspan(static_cast<size_t>(begin(id)),
                                    static_cast<size_t>(end(id) - begin(id)));
}

void ItemFeature::end_item() {
  ends.push_back(kind == ItemKind::Categorical ? std::ssize(ids) : std::ssize(numbers));
}

void ItemFeature::add_item_of(const ItemFeature& other, int64_t id) {
  const auto own_ids = other.ids_of(id);
  const auto own_numbers = other.numbers_of(id);
  ids.insert(ids.end(), own_ids.begin(), own_ids.end());
  numbers.insert(numbers.end(), own_numbers.begin(), own_numbers.end());
  end_item();
}

const ItemFeature* ItemFeatures::find(const std::string& name) const {
  const auto found = std::ranges::find(features, name, &ItemFeature::name);
  return found == features.end() ? nullptr : &*found;
}

ItemFeatures ItemFeatures::load(const fs::path& table, const fs::path& info) {
  ItemFeatures out;
  const auto json = parse_json(read_file(info), info.string());
  try {
    for (const auto& feature : json.at("features")) {
      out.features.push_back(feature_of(feature, info.string()));
    }
  } catch (const Json::exception& error) {
    fail<FileError>("prepare", "{} does not describe features of items: {}", info.string(),
                    json_trouble(error));
  }
  const data::ParquetFiles file(table.string());
  int64_t last = 0;
  data::each_rows(file, {{kItemFeatureId}, {}}, [&](const data::Rows& rows) {
    const auto& ids = rows.columns.at(kItemFeatureId);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const bool right = ids.kind == data::Column::Int64 && !ids.is_list &&
                         ids.ints[static_cast<size_t>(row)] == last + 1;
      if (!right) {
        fail<FileError>("prepare",
                        "{} does not have the items 1, 2, 3, ... in this order at row {}; try "
                        "convoy data sessions --items again",
                        table.string(), last);
      }
      ++last;
    }
  });
  if (const auto items = whole_number<int64_t>(json.value("items", Json()));
      items && last != *items) {
    fail<FileError>("prepare", "{} has {}, and {} tells of {}; expected both as convoy wrote them",
                    table.string(), plural(last, "item"), info.filename().string(), *items);
  }
  for (auto& feature : out.features) {  // one after the other: lists of a row differ in length
    data::each_rows(file, {{feature.name}, {}},
                    [&](const data::Rows& rows) { take_rows(rows, table.string(), feature); });
  }
  return out;
}

std::string write_item_features(const ItemFeatures& features, const fs::path& file,
                                const fs::path& shown) {
  Json info{{"features", Json::array()}, {"items", features.num_items()}};
  arrow::FieldVector fields{arrow::field(kItemFeatureId, arrow::int64())};
  arrow::ArrayVector arrays{item_ids(features.num_items())};
  for (const auto& feature : features.features) {
    info["features"].push_back(info_of_feature(feature));
    const bool categorical = feature.kind == ItemKind::Categorical;
    fields.push_back(
        arrow::field(feature.name, arrow::list(categorical ? arrow::int64() : arrow::float32())));
    arrays.push_back(lists_of(feature));
  }
  const auto schema = arrow::schema(fields);
  data::ParquetWriter writer(file, shown, schema);
  writer.begin_row_group();
  writer.write(*arrow::RecordBatch::Make(schema, features.num_items(), arrays));
  writer.close();
  return info.dump(2) + "\n";
}

}  // namespace convoy::prepare
