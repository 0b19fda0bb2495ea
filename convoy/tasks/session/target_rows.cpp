#include "convoy/tasks/session/target_rows.h"

#include <algorithm>

#include "convoy/base/random.h"
#include "convoy/data/padding.h"
#include "convoy/data/parquet_files.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/context.h"
#include "convoy/prepare/items.h"
#include "convoy/prepare/seen.h"
#include "convoy/tasks/session/same_ids.h"

namespace convoy::tasks {

std::vector<TargetRow> read_target_rows(const std::string& file, const std::string& item_column,
                                        const std::string& owner_column, int64_t most) {
  const data::ParquetFiles dataset(file);
  data::Selection selection{{item_column}, {}};
  const bool has_owner = data::has_numbers(dataset, owner_column);
  const bool has_seen = data::has_numbers(dataset, prepare::kNumSeen);
  if (has_owner) selection.columns.push_back(owner_column);
  if (has_seen) selection.columns.emplace_back(prepare::kNumSeen);
  prepare::select_context(dataset, selection);
  std::vector<TargetRow> out;
  int64_t first = 0;
  data::each_rows(dataset, selection, [&](const data::Rows& rows) {
    const auto& items = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const auto whole = data::unpadded_length(items, row);
      const auto length = most > 0 ? std::min(whole, most) : whole;
      if (length < 2) continue;
      const auto context = prepare::context_of(rows, row, length - 1);
      const auto at = static_cast<size_t>(row);
      out.push_back(
          {.row = first + row,
           .target = items.ints[static_cast<size_t>(items.begin(row) + length - 1)],
           .owner = has_owner ? rows.columns.at(owner_column).ints[at] : first + row,
           .length = length - 1 - context,
           .before = has_seen ? rows.columns.at(prepare::kNumSeen).ints[at] - 1 - (whole - length)
                              : length - 1});
    }
    first += rows.num_rows;
  });
  return out;
}

std::vector<uint64_t> keys_of(const std::vector<TargetRow>& rows, const std::string& file) {
  const auto find = beside(file);
  const auto items = prepare::ItemNames::load(find("items.parquet")),
             users = prepare::ItemNames::load(find(prepare::kUsersFile));
  std::vector<uint64_t> out;
  for (const auto& row : rows) {
    const auto who = hash_text(users.raw_id(row.owner)), what = hash_text(items.raw_id(row.target));
    out.push_back(hash_combine(hash_combine(who, what), static_cast<uint64_t>(row.before)));
  }
  return out;
}

}  // namespace convoy::tasks
