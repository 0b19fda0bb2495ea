#include "convoy/data/parquet_stream.h"

#include <algorithm>

#include "convoy/data/arrow_decode.h"

namespace convoy::data {

void FileStream::append(int64_t count, Rows& rows) {
  guarded(path_, [&] {
    while (count > 0 && advance()) {
      const int64_t take_rows = std::min(count, batch_end_ - batch_begin_);
      auto part = batch_->Slice(batch_begin_ - batch_start_, take_rows);
      const int64_t group = segments_[segment_].group;
      append_batch(*part, selection_, group_first_row_[group] + batch_begin_, path_, rows);
      batch_begin_ += take_rows;
      count -= take_rows;
    }
  });
}

bool FileStream::advance() {
  while (batch_begin_ >= batch_end_) {
    if (batches_ && place_ >= segments_[segment_].end) {
      batches_.reset();
      ++segment_;
    }
    while (segment_ < segments_.size() && segments_[segment_].end <= segments_[segment_].begin) {
      ++segment_;  // row groups may be empty
    }
    if (segment_ >= segments_.size()) return false;
    const RowRange& segment = segments_[segment_];
    if (!batches_) {
      batches_ = arrow_value(
          reader_->GetRecordBatchReader({static_cast<int>(segment.group)}, leaves_), path_);
      place_ = 0;
    }
    check_arrow(batches_->ReadNext(&batch_), path_);
    if (!batch_) {
      fail<FileError>("data", "{} is damaged: row group {} ends at row {} before row {}",
                      path_.string(), segment.group, place_, segment.end);
    }
    batch_start_ = place_;
    place_ += batch_->num_rows();
    decoded_rows_ += batch_->num_rows();
    batch_begin_ = std::max(batch_start_, segment.begin);
    batch_end_ = std::min(place_, segment.end);
  }
  return true;
}

}  // namespace convoy::data
