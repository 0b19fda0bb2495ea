#include "convoy/tasks/session/row_owners.h"
#include "convoy/prepare/seen.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/tasks/session/same_ids.h"

namespace convoy::tasks {

namespace {

constexpr const char* kUserColumn = "user_id";

}  // namespace

std::vector<std::string> owner_columns(const formats::Schema& schema) {
  std::vector<std::string> out;
  for (const char* tag : {"user_id", "session_id"}) {
    for (const auto& feature : schema.features) {
      if (feature.has_tag(tag) && !feature.is_list) out.push_back(feature.name);
    }
  }
  return out;
}

std::string owner_column(const formats::Schema& schema) {
  const auto columns = owner_columns(schema);
  return columns.empty() ? "" : columns.front();
}

RowOwners find_owners(const data::ParquetFiles& dataset, const formats::Schema& schema,
                      bool reads) {
  RowOwners out;
  auto wanted = owner_columns(schema);
  if (const auto own = beside(dataset.where())("schema.json"); !own.empty()) {
    const auto more = owner_columns(formats::Schema::load(own));
    wanted.insert(wanted.end(), more.begin(), more.end());
  }
  wanted.insert(wanted.end(), {kUserColumn, "session_id"});
  for (const auto& name : wanted) {
    const auto column = std::ranges::find(dataset.columns(), name, &data::ColumnInfo::name);
    if (column == dataset.columns().end() || column->is_list || column->is_vectors) continue;
    const bool texts = !column->readable;
    if (!texts && column->kind != data::Column::Int64) continue;
    if (!texts) out.column = name;
    const auto users = beside(dataset.where())(prepare::kUsersFile);
    const bool named = !texts && name == kUserColumn && !users.empty();
    if (named && reads) out.names = prepare::ItemNames::load(users);
    if (texts && reads) {
      for (const auto& file : dataset.files()) {
        const auto read = prepare::read_raw_ids(file.path(), name);
        out.texts.insert(out.texts.end(), read.begin(), read.end());
      }
    }
    if (!named) {
      out.note = fmt::format("user_id of the predictions is the column '{}' of {}{}", name,
                             dataset.where(),
                             texts || name != kUserColumn
                                 ? ""
                                 : ": there is no users.parquet beside it, which would tell which "
                                   "user of the events each number is");
    }
    return out;
  }
  out.note = fmt::format("{} has no column of users or sessions: predictions name its rows alone",
                         dataset.where());
  return out;
}

}  // namespace convoy::tasks
