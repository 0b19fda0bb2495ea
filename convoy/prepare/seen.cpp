#include "convoy/prepare/seen.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/formats/schema.h"

namespace convoy::prepare {

SeenLists::SeenLists(const std::filesystem::path& file) {
  const data::Selection selection{{"user_id", formats::kItemColumn},
                                  {{formats::kItemColumn, data::IdLimit{INT32_MAX}}}};
  data::each_rows(data::ParquetFiles(file.string()), selection, [&](const data::Rows& rows) {
    const auto& users = rows.columns.at("user_id").ints;
    const auto& items = rows.columns.at(formats::kItemColumn);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      if (users[static_cast<size_t>(row)] != num_users() + 1) {
        fail<FileError>("prepare",
                        "row {} of {} is of user {}; expected {}, as users count up from 1; try "
                        "`convoy data sessions` to write it again",
                        num_users(), file.string(), users[static_cast<size_t>(row)],
                        num_users() + 1);
      }
      items_.insert(items_.end(), items.ints.begin() + items.begin(row),
                    items.ints.begin() + items.end(row));
      ends_.push_back(std::ssize(items_));
    }
  });
}

std::span<const int32_t> SeenLists::of(int64_t user_id) const {
  if (!has(user_id)) return {};
  const auto place = static_cast<size_t>(user_id - 1);
  const int64_t begin = place == 0 ? 0 : ends_[place - 1];
  return std::span(items_).subspan(static_cast<size_t>(begin),
                                   static_cast<size_t>(ends_[place] - begin));
}

std::span<const int32_t> SeenLists::of(int64_t user_id, int64_t count) const {
  const auto all = of(user_id);
  return all.first(static_cast<size_t>(std::clamp<int64_t>(count, 0, std::ssize(all))));
}

bool decided_to_exclude(const std::filesystem::path& decisions) {
  std::error_code error;
  if (decisions.empty() || !std::filesystem::exists(decisions, error)) return false;
  const auto json = parse_json(read_file(decisions), decisions.string());
  const auto decided = json.is_object() ? json.value("exclude_seen", Json()) : Json();
  if (decided.is_boolean()) return decided.get<bool>();
  fail<FileError>("prepare",
                  "{} has no \"exclude_seen\" that is true or false; try `convoy data "
                  "sessions` to write it again",
                  decisions.string());
}

}  // namespace convoy::prepare
