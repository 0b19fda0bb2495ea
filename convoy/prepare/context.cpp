#include "convoy/prepare/context.h"

#include <algorithm>

#include "convoy/prepare/seen.h"

namespace convoy::prepare {

void select_context(const data::ParquetFiles& file, data::Selection& selection) {
  if (data::has_numbers(file, kNumContext)) selection.columns.emplace_back(kNumContext);
}

int64_t context_of(const data::Rows& rows, int64_t row, int64_t length) {
  const auto column = rows.columns.find(kNumContext);
  if (column == rows.columns.end()) return 0;
  return std::clamp<int64_t>(column->second.ints[static_cast<size_t>(row)], 0, length);
}

}  // namespace convoy::prepare
