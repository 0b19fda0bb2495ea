#include "convoy/prepare/items.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/data/row_writer.h"
#include "convoy/data/table_source.h"
#include "convoy/prepare/events_decode.h"

namespace convoy::prepare {
namespace fs = std::filesystem;

void write_items(const fs::path& file, const fs::path& shown, const std::vector<Item>& items) {
  std::vector<data::RowWriter::Column> columns{
      {"id", int64_t{}}, {"raw_id", std::string()}, {"count", int64_t{}}};
  const bool named =
      std::any_of(items.begin(), items.end(), [](const Item& item) { return !item.name.empty(); });
  if (named) columns.emplace_back("name", std::string());
  data::RowWriter writer(file, shown, columns);
  for (const Item& item : items) {
    std::vector<data::RowWriter::Value> row{item.id, item.raw_id, item.count};
    if (named) row.emplace_back(item.name);
    writer.add(row);
  }
  writer.close();
}

std::vector<std::string> read_raw_ids(const fs::path& file, const std::string& column) {
  const data::TableSource source(file, {});
  std::vector<std::string> out;
  const auto read_batch = [&](const arrow::RecordBatch& batch) {
    each_text(
        *batch.column(0), {column, file.string(), "a column of ids"},
        [&](std::string_view text) { out.emplace_back(text); }, [&] { out.emplace_back(); });
  };
  source.read({source.require(column, "a column of ids")}, {nullptr}, read_batch, {});
  return out;
}

ItemNames ItemNames::load(const fs::path& file) {
  ItemNames names;
  std::error_code code;
  if (!fs::exists(file, code)) return names;
  const data::TableSource source(file, {});
  const char* advice = "`convoy data sessions` to write it again";
  std::vector<int> columns;
  for (const char* column : {"id", "raw_id", "count"}) {
    columns.push_back(source.require(column, advice));
  }
  names.has_names_ = source.find("name") >= 0;
  if (names.has_names_) columns.push_back(source.find("name"));
  int64_t next = 1;
  auto read_batch = [&](const arrow::RecordBatch& batch) {
    const size_t first = names.items_.size();
    names.items_.resize(first + static_cast<size_t>(batch.num_rows()));
    auto texts = [&](int column, const char* name, std::string Item::* member) {
      size_t row = first;
      each_text(
          *batch.column(column), {name, file.string(), advice},
          [&](std::string_view text) { names.items_[row++].*member = text; }, [&] { ++row; });
    };
    auto numbers = [&](int column, const char* name, int64_t Item::* member) {
      size_t row = first;
      each_number(
          *batch.column(column), {name, file.string(), advice},
          [&](double value) {
            names.items_[row++].*member = std::abs(value) < 9e15 ? static_cast<int64_t>(value) : 0;
          },
          [&] { ++row; });
    };
    numbers(0, "id", &Item::id);
    texts(1, "raw_id", &Item::raw_id);
    numbers(2, "count", &Item::count);
    if (names.has_names_) texts(3, "name", &Item::name);
    for (size_t row = first; row < names.items_.size(); ++row, ++next) {
      if (names.items_[row].id == next) continue;
      fail<FileError>("prepare",
                      "row {} of {} has id {}; expected {}, as ids count up from 1; try {}", row,
                      file.string(), names.items_[row].id, next, advice);
    }
  };
  source.read(columns, std::vector<std::shared_ptr<arrow::DataType>>(columns.size()), read_batch,
              {});
  return names;
}

const Item* ItemNames::get(int64_t id) const {
  return id >= 1 && id <= size() ? &items_[static_cast<size_t>(id - 1)] : nullptr;
}

std::string ItemNames::raw_id(int64_t id) const {
  const Item* item = get(id);
  return item ? item->raw_id : std::to_string(id);
}

int64_t ItemNames::count(int64_t id) const {
  const Item* item = get(id);
  return item ? item->count : 0;
}

std::string ItemNames::name(int64_t id) const {
  const Item* item = get(id);
  return item ? item->name : "";
}

std::string ItemNames::label(int64_t id) const {
  const std::string title = name(id);
  return title.empty() ? raw_id(id) : title;
}

}  // namespace convoy::prepare
