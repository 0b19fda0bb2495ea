#include "convoy/tasks/session/catalog_facts.h"

#include <algorithm>
#include <set>
#include <utility>

#include "convoy/data/padding.h"
#include "convoy/data/parquet_files.h"
#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/context.h"

namespace convoy::tasks {

namespace {

/// Values of a column by item; a column whose value changes between an item's events is none of the
/// item's.
class ItemValues {
 public:
  explicit ItemValues(int64_t num_ids) : values_(static_cast<size_t>(num_ids), kNone) {}

  void add(int64_t item, int64_t value) {
    auto& known = values_[static_cast<size_t>(item)];
    constant_ = constant_ && (known == kNone || known == value);
    known = value;
  }
  bool constant() const { return constant_; }
  std::vector<int64_t> by_id() const {
    auto out = values_;
    std::ranges::replace(out, kNone, 0);
    return out;
  }

 private:
  static constexpr int64_t kNone = -1;
  std::vector<int64_t> values_;
  bool constant_ = true;
};

}  // namespace

void read_catalog_facts(const std::string& train, const std::string& item_column,
                        const std::string& owner_column, const formats::Schema& schema,
                        int64_t num_ids, CatalogFacts& facts) {
  const data::ParquetFiles file(train);
  data::Selection selection{{item_column}, {{item_column, data::IdLimit{num_ids - 1}}}};
  const bool has_owner = data::has_numbers(file, owner_column);
  if (has_owner) selection.columns.push_back(owner_column);
  prepare::select_context(file, selection);
  std::map<std::string, ItemValues> categories;
  for (const auto& feature : schema.features) {
    const bool is_category = feature.has_tag("categorical") && feature.name != item_column;
    if (!is_category || !data::has_numbers(file, feature.name, /*is_list=*/true)) continue;
    categories.emplace(feature.name, num_ids);
    selection.columns.push_back(feature.name);
  }
  std::vector<std::pair<int64_t, int64_t>> had;  // item, owner
  std::set<int64_t> owners;
  int64_t first = 0;
  data::each_rows(file, selection, [&](const data::Rows& rows) {
    const auto& items = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t begin = items.begin(row), length = data::unpadded_length(items, row);
      const int64_t owner =
          has_owner ? rows.columns.at(owner_column).ints[static_cast<size_t>(row)] : first + row;
      if (length > 0) owners.insert(owner);
      for (int64_t i = prepare::context_of(rows, row, length); i < length; ++i) {
        const int64_t item = items.ints[static_cast<size_t>(begin + i)];
        had.emplace_back(item, owner);
        for (auto& [name, values] : categories) {
          const auto& column = rows.columns.at(name);
          const auto at = column.begin(row) + i;
          if (at < column.end(row)) values.add(item, column.ints[static_cast<size_t>(at)]);
        }
      }
    }
    first += rows.num_rows;
  });
  std::ranges::sort(had);
  facts.users.assign(static_cast<size_t>(num_ids), 0);
  for (size_t i = 0; i < had.size(); ++i) {
    if (i == 0 || had[i] != had[i - 1]) ++facts.users[static_cast<size_t>(had[i].first)];
  }
  facts.num_users = std::ssize(owners);
  for (const auto& [name, values] : categories) {
    if (values.constant()) facts.categories.emplace(name, values.by_id());
  }
}

}  // namespace convoy::tasks
