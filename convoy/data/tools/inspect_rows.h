#pragma once

// Internal to the component.

#include <algorithm>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/parquet_files.h"

namespace convoy::data {

/// Calls `consume` with all rows of `data`, some thousands at a time, in file order.
template <class F>
void each_rows(const ParquetFiles& data, const Selection& selection, F&& consume,
               const ProgressFn& progress = {}) {
  constexpr int64_t kRows = 16384;
  data.check(selection);
  std::vector<Segment> segments;
  for (int64_t group = 0; group < data.num_row_groups(); ++group) {
    segments.push_back({group, 0, data.group_rows()[static_cast<size_t>(group)]});
  }
  auto stream = data.stream(segments, selection);
  for (int64_t done = 0; done < data.num_rows();) {
    const int64_t count = std::min(kRows, data.num_rows() - done);
    consume(stream->next(count));
    done += count;
    if (progress) progress(done, data.num_rows());
  }
}

}  // namespace convoy::data
