#pragma once

#include <cstdint>

#include "convoy/data/columns.h"

namespace convoy::data {

/// Number of values of a row of ids before the padding, 0, at its end.
inline int64_t unpadded_length(const Column& ids, int64_t row) {
  int64_t end = ids.end(row);
  while (end > ids.begin(row) && ids.ints[static_cast<size_t>(end - 1)] == 0) --end;
  return end - ids.begin(row);
}

}  // namespace convoy::data
