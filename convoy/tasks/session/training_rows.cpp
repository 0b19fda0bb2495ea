#include "convoy/tasks/session/training_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/data/tools/inspect_rows.h"

namespace convoy::tasks {

TrainingRows survey_training(const data::ParquetFiles& data, const std::string& item_column,
                             int64_t num_ids, const data::ListLimits& limits) {
  TrainingRows out;
  out.seen.assign(static_cast<size_t>(num_ids), false);
  const data::Selection selection{{item_column}, {{item_column, data::IdLimit{num_ids - 1}}}};
  data::each_rows(data, selection, [&](const data::Rows& rows) {
    const auto& items = rows.columns.at(item_column);
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      int64_t begin = items.begin(row), end = items.end(row);
      const int64_t over = std::max<int64_t>(0, end - begin - limits.max_length);
      ++out.num_rows;
      out.num_items += end - begin;
      out.cut_rows += over > 0;
      out.cut_items += over;
      (limits.truncation == data::Truncation::KeepLast ? begin : end) +=
          limits.truncation == data::Truncation::KeepLast ? over : -over;
      if (end - begin < 2) continue;
      for (int64_t i = begin; i < end; ++i) {
        out.seen[static_cast<size_t>(items.ints[static_cast<size_t>(i)])] = true;
      }
    }
  });
  return out;
}

std::string TrainingRows::warning(int64_t max_length) const {
  if (cut_rows == 0) return "";
  return fmt::format(
      "{} of {} rows are longer than max_length = {} and are cut to that: {} of {} items ({:.1f} "
      "%) "
      "are not read; try a larger --max_length, or sessions with a smaller one",
      human_count(cut_rows), human_count(num_rows), max_length, human_count(cut_items),
      human_count(num_items),
      100.0 * static_cast<double>(cut_items) / static_cast<double>(num_items));
}

}  // namespace convoy::tasks
