#include "convoy/data/row_source.h"

#include <algorithm>

namespace convoy::data {

RowSource::RowSource(ParquetFiles dataset, Selection selection, int64_t memory_budget)
    : dataset_(std::move(dataset)), selection_(std::move(selection)) {
  dataset_.check(selection_);
  keeps_all_ = dataset_.decoded_bytes(selection_) <= memory_budget;
  group_start_ = {0};
  for (int64_t rows : dataset_.group_rows()) group_start_.push_back(group_start_.back() + rows);
  groups_.resize(dataset_.group_rows().size());
}

void RowSource::start(const EpochOrder& order) {
  order_ = &order;
  lanes_.clear();
  if (!keeps_all_) held_bytes_ = 0;
}

RowRef RowSource::row(int64_t s) {
  return keeps_all_ ? kept_row(s) : streamed_row(s);
}

RowRef RowSource::kept_row(int64_t s) {
  const int64_t row = order_->row_of(s);
  if (row < 0) return {};
  auto after = std::upper_bound(group_start_.begin(), group_start_.end(), row);
  const int64_t group = after - group_start_.begin() - 1;
  auto& rows = groups_[group];
  if (!rows) {
    rows = dataset_.read(group, selection_);
    account(rows->bytes(), rows->num_rows);
  }
  return {&*rows, row - group_start_[group]};
}

RowRef RowSource::streamed_row(int64_t s) {
  const int64_t index = order_->lane_of(s), place = s / order_->num_lanes();
  const int64_t num_rows = order_->lane_rows(index);
  if (place >= num_rows) return {};
  const int64_t size = order_->window(), number = place / size, begin = number * size;
  Lane& lane = lanes_[index];
  if (number != lane.number) {
    const int64_t bytes = lane.window.bytes();
    // A rank may need no row of a small window: it reads on, which is cheaper than to open anew.
    const bool reads_on = lane.number >= 0 && lane.number < number;
    int64_t next = reads_on ? lane.number + 1 : number;
    if (!reads_on) open(lane, index, begin);
    const int64_t decoded = lane.stream->decoded_rows();
    lane.number = -1;
    for (; next <= number; ++next) {
      lane.window.clear();
      lane.stream->append(std::min(size, num_rows - next * size), lane.window);
    }
    lane.number = number;
    account(lane.window.bytes() - bytes, lane.stream->decoded_rows() - decoded);
  }
  return {&lane.window, order_->place_in_stretch(index, place) - begin};
}

/// Opens the lane's reader at place `place` of its stretch.
void RowSource::open(Lane& lane, int64_t index, int64_t place) const {
  std::vector<RowRange> segments;
  for (RowRange segment : order_->segments_of_lane(index)) {
    const int64_t skip = std::min(place, segment.end - segment.begin);
    place -= skip;
    segment.begin += skip;
    if (segment.begin < segment.end) segments.push_back(segment);
  }
  lane.stream = dataset_.stream(segments, selection_);
}

void RowSource::account(int64_t bytes, int64_t rows) {
  held_bytes_ += bytes;
  decoded_rows_ += rows;
  peak_bytes_ = std::max(peak_bytes_.load(), held_bytes_.load());
}

}  // namespace convoy::data
