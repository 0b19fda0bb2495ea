#include "convoy/tasks/session/baselines/interactions.h"

#include <algorithm>
#include <unordered_map>

#include "convoy/data/tools/inspect_rows.h"
#include "convoy/prepare/context.h"

namespace convoy::tasks {

std::span<const int32_t> Interactions::row(int64_t at) const {
  const int64_t begin = at == 0 ? 0 : ends[static_cast<size_t>(at - 1)];
  return std::span(items).subspan(static_cast<size_t>(begin),
                                  static_cast<size_t>(ends[static_cast<size_t>(at)] - begin));
}

Interactions Interactions::transposed() const {
  Interactions out;
  out.num_columns = num_rows();
  out.ends.assign(static_cast<size_t>(num_columns), 0);
  for (const int32_t item : items) ++out.ends[static_cast<size_t>(item)];
  int64_t sum = 0;
  std::vector<int64_t> next;
  next.reserve(out.ends.size());
  for (int64_t& end : out.ends) {
    next.push_back(sum);
    end = sum += end;
  }
  out.items.resize(items.size());
  for (int64_t person = 0; person < num_rows(); ++person) {
    for (const int32_t item : row(person)) {
      out.items[static_cast<size_t>(next[static_cast<size_t>(item)]++)] =
          static_cast<int32_t>(person);
    }
  }
  return out;
}

Interactions read_interactions(const data::ParquetFiles& train, const std::string& item_column,
                               const std::string& owner_column, int64_t num_items) {
  std::vector<std::vector<int32_t>> persons;
  std::unordered_map<int64_t, size_t> places;  // of an owner in `persons`
  data::Selection selection{{item_column}, {{item_column, data::IdLimit{num_items}}}};
  if (!owner_column.empty()) selection.columns.push_back(owner_column);
  prepare::select_context(train, selection);
  data::each_rows(train, selection, [&](const data::Rows& rows) {
    const auto& ids = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      size_t place = persons.size();
      if (!owner_column.empty()) {
        const auto owner = rows.columns.at(owner_column).ints[static_cast<size_t>(row)];
        place = places.try_emplace(owner, place).first->second;
      }
      if (place == persons.size()) persons.emplace_back();
      const int64_t context = prepare::context_of(rows, row, ids.end(row) - ids.begin(row));
      for (int64_t i = ids.begin(row) + context; i < ids.end(row); ++i) {
        const auto id = ids.ints[static_cast<size_t>(i)];
        if (id > 0) persons[place].push_back(static_cast<int32_t>(id));
      }
    }
  });
  Interactions out;
  out.num_columns = num_items + 1;
  for (auto& items : persons) {
    std::ranges::sort(items);
    items.erase(std::unique(items.begin(), items.end()), items.end());
    out.items.insert(out.items.end(), items.begin(), items.end());
    out.ends.push_back(std::ssize(out.items));
    items = {};
  }
  return out;
}

}  // namespace convoy::tasks
