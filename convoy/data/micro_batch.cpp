#include "convoy/data/micro_batch.h"

#include <algorithm>
#include <utility>

namespace convoy::data {

namespace {

/// [rows, length, width] from lists laid end to end.
template <class T>
std::vector<T> pad(const std::vector<T>& values, const std::vector<int64_t>& lengths,
                   int64_t length, int64_t width) {
  const int64_t row_size = length * width;
  std::vector<T> out(lengths.size() * static_cast<size_t>(row_size), T{0});
  auto from = values.begin();
  for (size_t row = 0; row < lengths.size(); ++row) {
    const int64_t count = lengths[row] * width;
    std::copy_n(from, count, out.begin() + static_cast<std::ptrdiff_t>(row) * row_size);
    from += count;
  }
  return out;
}

template <class T>
void copy_values(const std::vector<T>& from, int64_t begin, int64_t count, std::vector<T>& to) {
  to.insert(to.end(), from.begin() + begin, from.begin() + begin + count);
}

}  // namespace

MicroBatchBuilder::MicroBatchBuilder(const std::map<std::string, ColumnShape>& columns,
                                     ListLimits limits)
    : columns_(columns), limits_(std::move(limits)) {}

void MicroBatchBuilder::add(const RowRef& ref, int64_t sample_offset) {
  int64_t row_length = 1;
  for (const auto& [name, shape] : columns_) {
    const Column& column = ref.rows->columns.at(name);
    Column& values = ragged_[name];
    int64_t begin = column.begin(ref.row), length = column.end(ref.row) - begin;
    if (column.is_list) {
      if (name == limits_.whole) {
        copy_values(column.ints, begin, length, whole_);
        whole_lengths_.push_back(length);
      }
      row_length = length;
      length = std::min(length, limits_.max_length);
      if (limits_.truncation == Truncation::KeepLast) begin += row_length - length;
    }
    if (column.kind == Column::Int64) {
      copy_values(column.ints, begin, length, values.ints);
    } else {
      copy_values(column.floats, begin * shape.num_numbers(), length * shape.num_numbers(),
                  values.floats);
    }
  }
  micro_batch_.truncated_rows += row_length > limits_.max_length;
  row_length = std::min(row_length, limits_.max_length);
  micro_batch_.short_rows += row_length < 2;
  micro_batch_.lengths.push_back(row_length);
  micro_batch_.sample_offset.push_back(sample_offset);
  ++micro_batch_.num_samples;
}

MicroBatch MicroBatchBuilder::finish() {
  if (micro_batch_.lengths.empty()) {
    micro_batch_.lengths.push_back(0);
    micro_batch_.sample_offset.push_back(0);
    for (const auto& [name, shape] : columns_) {
      if (shape.is_list) continue;
      ragged_[name].ints.resize(shape.kind == Column::Int64);
      ragged_[name].floats.resize(shape.kind == Column::Float32 ? shape.num_numbers() : 0);
    }
  }
  micro_batch_.rows = std::ssize(micro_batch_.lengths);
  micro_batch_.length = std::max<int64_t>(1, *std::ranges::max_element(micro_batch_.lengths));
  const auto& lengths = micro_batch_.lengths;
  for (const auto& [name, shape] : columns_) {
    PaddedColumn out{shape, {}, {}};
    Column& values = ragged_[name];
    if (!out.is_list) {
      out.ints = std::move(values.ints);
      out.floats = std::move(values.floats);
    } else if (out.kind == Column::Int64) {
      out.ints = pad(values.ints, lengths, micro_batch_.length, 1);
    } else {
      out.floats = pad(values.floats, lengths, micro_batch_.length, shape.num_numbers());
    }
    micro_batch_.columns.emplace(name, std::move(out));
    values.clear();
  }
  if (!limits_.whole.empty()) {
    whole_lengths_.resize(lengths.size());
    micro_batch_.whole_length = std::max<int64_t>(1, *std::ranges::max_element(whole_lengths_));
    micro_batch_.whole = pad(whole_, whole_lengths_, micro_batch_.whole_length, 1);
    whole_.clear();
    whole_lengths_.clear();
  }
  MicroBatch done = std::move(micro_batch_);
  micro_batch_ = {};
  return done;
}

}  // namespace convoy::data
