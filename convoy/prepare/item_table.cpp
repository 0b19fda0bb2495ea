#include "convoy/prepare/item_table.h"

#include <arrow/array.h>
#include <arrow/type.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <unordered_map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/arrow_types.h"
#include "convoy/data/table_source.h"
#include "convoy/prepare/events_decode.h"
#include "convoy/prepare/mostly_numbers.h"

namespace convoy::prepare {

namespace {

constexpr const char* kFlag = "--item-tower";

bool is_list_type(const arrow::DataType& type) {
  using arrow::Type;
  return type.id() == Type::LIST || type.id() == Type::LARGE_LIST ||
         type.id() == Type::FIXED_SIZE_LIST;
}

/// Kind of a feature from the type of its column, or of its lists' entries.
ItemKind kind_by_type(const arrow::DataType& type) {
  using arrow::Type;
  if (is_list_type(type)) {
    const auto entry = type.field(0)->type()->id();
    const bool fractions =
        entry == Type::FLOAT || entry == Type::DOUBLE || entry == Type::HALF_FLOAT;
    return fractions ? ItemKind::Vector : ItemKind::Categorical;
  }
  const bool number =
      arrow::is_integer(type.id()) || arrow::is_floating(type.id()) || arrow::is_decimal(type.id());
  return number ? ItemKind::Continuous : ItemKind::Categorical;
}

/// Completes a column by its name in RecBole's form, or its type, where the option leaves something
/// open.
ItemColumn settled(ItemColumn column, const data::SourceColumn& source, bool is_text) {
  const auto typed = [&](const char* type) { return source.name == source.plain + ":" + type; };
  if (!column.kind) {
    column.kind = typed("token") || typed("token_seq") ? ItemKind::Categorical
                  : typed("float_seq")                 ? ItemKind::Vector
                  : typed("float")                     ? ItemKind::Continuous
                                                       : kind_by_type(*source.type);
  }
  const bool several = is_text && typed("token_seq") && column.separator.empty();
  if (several && column.kind == ItemKind::Categorical) column.separator = " ";
  return column;
}

/// Parses the numbers of a vector in text.
std::vector<double> numbers_in(std::string text, const ColumnPlace& place, int64_t row) {
  for (auto& c : text) {
    if (std::string_view("[](),;|\t").find(c) != std::string_view::npos) c = ' ';
  }
  std::vector<double> out;
  for (const auto& piece : split(text, ' ')) {
    if (piece.empty()) continue;
    double number = 0;
    if (!parse_number(piece, number)) {
      fail<FileError>("prepare",
                      "column '{}', row {} of {} holds '{}' in a vector; expected "
                      "numbers; try {} {}:categorical",
                      place.column, place.first_row + row, place.file, piece, kFlag, place.column);
    }
    out.push_back(number);
  }
  return out;
}

/// Reads one column into a feature, with an item for each row.
class ColumnReader {
 public:
  ColumnReader(const ItemColumn& column, ItemFeature& feature)
      : column_(column), feature_(feature) {}

  void read(const arrow::Array& array, const ColumnPlace& place) {
    row_ = 0;
    if (is_list_type(*array.type())) return read_lists(array, place);
    switch (feature_.kind) {
      case ItemKind::Categorical:
        return each_text(
            array, place,
            [&](std::string_view text) {
              take_text(text);
              end_row(place);
            },
            [&] { end_row(place); });
      case ItemKind::Continuous:
        return each_number(
            array, place,
            [&](double number) {
              take_number(number, place);
              end_row(place);
            },
            [&] { end_row(place); });
      case ItemKind::Vector:
        return each_text(
            array, place,
            [&](std::string_view text) {
              for (const double number : numbers_in(std::string(text), place, row_)) {
                take_number(number, place);
              }
              end_row(place);
            },
            [&] { end_row(place); });
    }
  }

 private:
  void read_lists(const arrow::Array& array, const ColumnPlace& place) {
    if (feature_.kind == ItemKind::Continuous) {
      fail<FileError>("prepare",
                      "column '{}' in {} is {}; expected one number a row; try {} "
                      "{}:vector",
                      place.column, place.file, array.type()->ToString(), kFlag, place.column);
    }
    const auto read_all = [&](const auto& lists) {
      for (int64_t i = 0; i < lists.length(); ++i) {
        if (lists.IsValid(i)) {
          read_entries(*lists.values()->Slice(lists.value_offset(i), lists.value_length(i)), place);
        }
        end_row(place);
      }
    };
    data::with_type<arrow::ListArray, arrow::LargeListArray, arrow::FixedSizeListArray>(array,
                                                                                        read_all);
  }

  void read_entries(const arrow::Array& entries, const ColumnPlace& place) {
    if (feature_.kind == ItemKind::Categorical) {
      return each_text(entries, place, [&](std::string_view text) { take_word(text); }, [] {});
    }
    each_number(
        entries, place, [&](double number) { take_number(number, place); },
        [&] { take_number(NAN, place); });
  }

  void take_text(std::string_view text) {
    if (column_.separator.empty()) return take_word(text);
    size_t begin = 0;
    while (begin <= text.size()) {
      const auto end = std::min(text.find(column_.separator, begin), text.size());
      take_word(text.substr(begin, end - begin));
      begin = end + column_.separator.size();
    }
  }

  void take_word(std::string_view word) {
    const auto text = trim(std::string(word));
    if (text.empty()) return;
    auto [found, is_new] = codes_.emplace(text, std::ssize(feature_.values) + 1);
    if (is_new) feature_.values.push_back(text);
    own_.push_back(found->second);
  }

  void take_number(double number, const ColumnPlace& place) {
    if (!std::isfinite(number)) {
      fail<FileError>("prepare", "column '{}', row {} of {} holds {}; expected finite numbers",
                      place.column, place.first_row + row_, place.file, number);
    }
    feature_.numbers.push_back(feature_.scale.apply(number, feature_.name));
  }

  void end_row(const ColumnPlace& place) {
    if (feature_.kind == ItemKind::Vector) check_width(place);
    std::ranges::sort(own_);
    own_.erase(std::unique(own_.begin(), own_.end()), own_.end());
    feature_.ids.insert(feature_.ids.end(), own_.begin(), own_.end());
    own_.clear();
    feature_.end_item();
    ++row_;
  }

  void check_width(const ColumnPlace& place) {
    const int64_t before = feature_.ends.empty() ? 0 : feature_.ends.back();
    const int64_t width = std::ssize(feature_.numbers) - before;
    if (width == 0) return;
    if (before == 0) feature_.width = width;
    if (width == feature_.width) return;
    fail<FileError>("prepare", "column '{}', row {} of {} has {}; expected {} as before it",
                    place.column, place.first_row + row_, place.file, plural(width, "number"),
                    feature_.width);
  }

  const ItemColumn& column_;
  ItemFeature& feature_;
  std::unordered_map<std::string, int64_t> codes_;
  std::vector<int64_t> own_;  // categories of the row at hand
  int64_t row_ = 0;           // of the array at hand
};

std::string key_column(const ItemTable& table, const data::TableSource& source) {
  if (!table.key.empty()) return table.key;
  for (const char* name : {"item_id", "item", "itemId", "movieId", "product_id", "itemid"}) {
    if (source.find(name) >= 0) return name;
  }
  return "item_id";
}

void check_keys(const std::vector<std::string>& keys, const data::TableSource& source,
                const std::string& column) {
  std::unordered_map<std::string_view, int64_t> rows;
  const auto row_number = [&](int64_t row) { return source.first_row() + row; };
  for (int64_t row = 0; row < std::ssize(keys); ++row) {
    const auto& key = keys[static_cast<size_t>(row)];
    if (key.empty()) {
      fail<FileError>("prepare",
                      "column '{}', row {} of {} has no item id; expected one in each "
                      "row",
                      column, row_number(row), source.file().string());
    }
    const auto [found, is_new] = rows.emplace(key, row);
    if (is_new) continue;
    fail<FileError>("prepare", "{} has two rows of item '{}', {} and {}; expected one of each",
                    source.file().string(), key, row_number(found->second), row_number(row));
  }
}

/// Throws where a column has no value in any row, except one whose values an earlier preparation
/// has.
void check_some(const ItemFeatures& features, const std::vector<ItemColumn>& columns,
                const std::string& file) {
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& feature = features.features[i];
    if (!feature.ids.empty() || !feature.numbers.empty() || columns[i].may_be_empty) continue;
    fail<FileError>("prepare", "column '{}' of {} has no value in any row; try {} without it",
                    feature.name, file, kFlag);
  }
}

/// Warns where most categories of a column are numbers and its kind was guessed.
void warn_of_numbers(const ItemFeature& feature, const std::string& file,
                     std::vector<std::string>& warnings) {
  if (feature.kind != ItemKind::Categorical) return;
  double ignored = 0;
  const auto is_number = [&](const std::string& value) { return parse_number(value, ignored); };
  const auto other = std::ranges::find_if_not(feature.values, is_number);
  const auto numbers = std::ranges::count_if(feature.values, is_number);
  if (other == feature.values.end() || 2 * numbers <= std::ssize(feature.values)) return;
  const MostlyNumbers mostly{feature.name, file, *other, numbers, std::ssize(feature.values)};
  warnings.push_back(mostly.warning("item feature", kFlag));
}

}  // namespace

TableFeatures read_item_table(const ItemTable& table) {
  const data::TableSource source(table.file, {.lists = true});
  TableFeatures out;
  const auto key = key_column(table, source);
  std::vector<int> columns{source.require(key, "--items-key COLUMN")};
  std::vector<ItemColumn> settled_columns;
  std::vector<bool> guessed;  // kinds that neither the option nor a header of RecBole's form gives
  for (const auto& column : table.columns) {
    const int at = source.require(column.name, "one of its columns in --item-tower");
    const auto& there = source.columns()[static_cast<size_t>(at)];
    columns.push_back(at);
    settled_columns.push_back(settled(column, there, source.is_text()));
    guessed.push_back(source.is_text() && !column.kind && there.name == there.plain);
    out.features.features.push_back(
        {.name = column.name, .kind = *settled_columns.back().kind, .scale = column.scale});
  }
  std::vector<ColumnReader> readers;
  for (size_t i = 0; i < settled_columns.size(); ++i) {
    readers.emplace_back(settled_columns[i], out.features.features[i]);
  }
  // Read as text, so that an error names the row.
  const std::vector<std::shared_ptr<arrow::DataType>> types(columns.size(), arrow::utf8());
  const auto file = table.file.string();
  source.read(columns, types,
              [&](const arrow::RecordBatch& batch) {
                const auto first = source.first_row() + std::ssize(out.raw_ids);
                each_text(
                    *batch.column(0), {key, file, "--items-key COLUMN", first},
                    [&](std::string_view text) { out.raw_ids.emplace_back(text); },
                    [&] { out.raw_ids.emplace_back(); });
                for (size_t i = 0; i < readers.size(); ++i) {
                  const auto& name = settled_columns[i].name;
                  readers[i].read(
                      *batch.column(static_cast<int>(i) + 1),
                      {name, file, fmt::format("{} {}:categorical", kFlag, name), first});
                }
              },
              {});
  check_keys(out.raw_ids, source, key);
  check_some(out.features, settled_columns, file);
  for (size_t i = 0; i < readers.size(); ++i) {
    if (guessed[i]) warn_of_numbers(out.features.features[i], file, out.warnings);
  }
  return out;
}

}  // namespace convoy::prepare
