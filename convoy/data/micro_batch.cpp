#include "convoy/data/micro_batch.h"

#include <algorithm>

namespace convoy::data {

namespace {

/// [rows, length] from lists laid end to end.
template <class T>
std::vector<T> pad(const std::vector<T>& values, const std::vector<int64_t>& lengths,
                   int64_t length) {
  std::vector<T> out(lengths.size() * static_cast<size_t>(length), T{0});
  auto from = values.begin();
  for (size_t row = 0; row < lengths.size(); ++row) {
    std::copy_n(from, lengths[row], out.begin() + static_cast<std::ptrdiff_t>(row) * length);
    from += lengths[row];
  }
  return out;
}

template <class T>
void copy_values(const std::vector<T>& from, int64_t begin, int64_t count, std::vector<T>& to) {
  to.insert(to.end(), from.begin() + begin, from.begin() + begin + count);
}

}  // namespace

MicroBatchBuilder::MicroBatchBuilder(const std::vector<ColumnInfo>& columns, int64_t max_length,
                                     Truncation truncation)
    : columns_(columns),
      max_length_(max_length),
      truncation_(truncation),
      ragged_(columns.size()) {}

void MicroBatchBuilder::add(const RowRef& ref, int64_t sample_offset) {
  int64_t row_length = 1;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const Column& column = ref.rows->columns.at(columns_[i].name);
    int64_t begin = column.begin(ref.row), length = column.end(ref.row) - begin;
    if (column.is_list) {
      if (length > max_length_ && truncation_ == Truncation::KeepLast)
        begin += length - max_length_;
      row_length = length;
      length = std::min(length, max_length_);
    }
    if (column.kind == Column::Int64) {
      copy_values(column.ints, begin, length, ragged_[i].ints);
    } else {
      copy_values(column.floats, begin, length, ragged_[i].floats);
    }
  }
  micro_batch_.truncated_rows += row_length > max_length_;
  row_length = std::min(row_length, max_length_);
  micro_batch_.short_rows += row_length < 2;
  micro_batch_.lengths.push_back(row_length);
  micro_batch_.sample_offset.push_back(sample_offset);
  ++micro_batch_.num_samples;
}

MicroBatch MicroBatchBuilder::finish() {
  if (micro_batch_.lengths.empty()) {
    micro_batch_.lengths.push_back(0);
    micro_batch_.sample_offset.push_back(0);
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].is_list) continue;
      ragged_[i].ints.resize(columns_[i].kind == Column::Int64);
      ragged_[i].floats.resize(columns_[i].kind == Column::Float32);
    }
  }
  micro_batch_.rows = std::ssize(micro_batch_.lengths);
  micro_batch_.length = std::max<int64_t>(1, *std::ranges::max_element(micro_batch_.lengths));
  for (size_t i = 0; i < columns_.size(); ++i) {
    PaddedColumn out{columns_[i].kind, columns_[i].is_list, {}, {}};
    if (!out.is_list) {
      out.ints = std::move(ragged_[i].ints);
      out.floats = std::move(ragged_[i].floats);
    } else if (out.kind == Column::Int64) {
      out.ints = pad(ragged_[i].ints, micro_batch_.lengths, micro_batch_.length);
    } else {
      out.floats = pad(ragged_[i].floats, micro_batch_.lengths, micro_batch_.length);
    }
    micro_batch_.columns.emplace(columns_[i].name, std::move(out));
    ragged_[i].clear();
  }
  MicroBatch done = std::move(micro_batch_);
  micro_batch_ = {};
  return done;
}

}  // namespace convoy::data
