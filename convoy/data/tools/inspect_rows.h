#pragma once

// Internal to the component.

#include <algorithm>
#include <vector>

#include "convoy/base/progress.h"
#include "convoy/data/parquet_files.h"

namespace convoy::data {

/// Calls `consume` with the rows of `data`, some thousands at a time, in file order: with the first
/// `most`, or with all where that is 0.
template <class F>
void each_rows(const ParquetFiles& data, const Selection& selection, F&& consume,
               const ProgressFn& progress = {}, int64_t most = 0) {
  constexpr int64_t kRows = 16384;
  data.check(selection);
  std::vector<RowRange> segments;
  for (int64_t group = 0; group < data.num_row_groups(); ++group) {
    segments.push_back({group, 0, data.group_rows()[static_cast<size_t>(group)]});
  }
  auto stream = data.stream(segments, selection);
  const int64_t total = most > 0 ? std::min(most, data.num_rows()) : data.num_rows();
  for (int64_t done = 0; done < total;) {
    const int64_t count = std::min(kRows, total - done);
    consume(stream->next(count));
    done += count;
    if (progress) progress(done, total);
  }
}

}  // namespace convoy::data
