#include "convoy/prepare/context.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/prepare/seen.h"

namespace convoy::prepare {

void select_context(const data::ParquetFiles& file, data::Selection& selection) {
  if (data::has_numbers(file, kNumContext)) {
    selection.columns.emplace_back(kNumContext);
    return;
  }
  for (const auto& one : file.files()) {
    const auto column = std::ranges::find(one.columns(), kNumContext, &data::ColumnInfo::name);
    if (column == one.columns().end()) continue;
    const bool first = &one == &file.files().front();
    fail<FileError>("data", "column '{}' of {} is {}; expected one whole number a row{}",
                    kNumContext, one.path().string(), column->type,
                    first ? ", as convoy data sessions --context writes it"
                          : fmt::format(", in {} too", file.files().front().path().string()));
  }
}

int64_t context_of(const data::Rows& rows, int64_t row, int64_t length) {
  const auto column = rows.columns.find(kNumContext);
  if (column == rows.columns.end()) return 0;
  return std::clamp<int64_t>(column->second.ints[static_cast<size_t>(row)], 0, length);
}

}  // namespace convoy::prepare
