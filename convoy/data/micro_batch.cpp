#include "convoy/data/micro_batch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "convoy/data/padding.h"

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

MicroBatchBuilder::Kept MicroBatchBuilder::kept_of(const RowRef& ref, int64_t length) const {
  const int64_t most = limits_.max_length;
  const bool keeps_last = limits_.truncation == Truncation::KeepLast;
  const int64_t over = std::max<int64_t>(0, length - most);
  Kept out{keeps_last ? over : 0, length - over, false, {}};
  if (limits_.known.column.empty()) return out;
  const Column& ids = ref.rows->columns.at(limits_.known.column);
  auto [places, missed] = known_places(limits_.known, ids, ids.begin(ref.row),
                                       keeps_last ? length : length - over, limits_.last_is_target);
  out.missed = missed;
  if (std::ssize(places) == (keeps_last ? length : length - over)) return out;
  out.some = true;
  const auto excess = std::max<int64_t>(0, std::ssize(places) - most);
  out.places.assign(places.begin() + excess, places.end());
  out.length = std::ssize(out.places);
  return out;
}

/// Copies the whole lists. Ids beyond the model's are left out, as nothing ranks them.
void MicroBatchBuilder::copy_whole(const Column& column, int64_t begin, int64_t length) {
  if (limits_.last_is_target) {
    if (limits_.truncation == Truncation::KeepFirst) length = std::min(length, limits_.max_length);
    length = std::max<int64_t>(0, length - 1);
  }
  const auto first = std::ssize(whole_);
  copy_values(column.ints, begin, length, whole_);
  whole_lengths_.push_back(length);
  if (limits_.known.column.empty()) return;
  std::for_each(whole_.begin() + first, whole_.end(),
                [&](int64_t& id) { id = id < limits_.known.size() ? id : 0; });
}

void MicroBatchBuilder::add(const RowRef& ref, int64_t sample_offset) {
  int64_t row_length = 1, whole_length = 1;
  std::optional<Kept> kept;  // all lists of a row are as long as each other
  std::optional<int64_t> unpadded;
  if (!limits_.padded.empty()) {
    unpadded = unpadded_length(ref.rows->columns.at(limits_.padded), ref.row);
  }
  for (const auto& [name, shape] : columns_) {
    const Column& column = ref.rows->columns.at(name);
    Column& values = ragged_[name];
    int64_t begin = column.begin(ref.row), length = column.end(ref.row) - begin;
    if (column.is_list) {
      length = unpadded.value_or(length);
      if (name == limits_.whole) copy_whole(column, begin, length);
      if (!kept) kept = kept_of(ref, length);
      whole_length = length;
      row_length = length = kept->length;
      begin += kept->first;
    }
    const auto copy = [&](int64_t from, int64_t count) {
      if (column.kind == Column::Int64) {
        copy_values(column.ints, from, count, values.ints);
      } else {
        copy_values(column.floats, from * shape.num_numbers(), count * shape.num_numbers(),
                    values.floats);
      }
    };
    const auto before = std::ssize(values.ints);
    if (column.is_list && kept->some) {
      for (const int64_t place : kept->places) copy(column.begin(ref.row) + place, 1);
    } else {
      copy(begin, length);
    }
    if (name == limits_.known.column && kept->missed && row_length > 0) {
      values.ints.back() = values.ints[values.ints.size() - 2];  // the model has no such id
    }
    if (const auto known = limits_.known.others.find(name); known != limits_.known.others.end()) {
      std::for_each(values.ints.begin() + before, values.ints.end(),
                    [&](int64_t& id) { id = KnownIds::has(*known->second, id) ? id : 0; });
    }
  }
  if (!limits_.leading.empty() && kept) {
    auto& count = ragged_.at(limits_.leading).ints.back();
    count = std::max<int64_t>(0, count - kept->first);
  }
  micro_batch_.truncated_rows += whole_length > limits_.max_length;
  micro_batch_.short_rows += row_length < 2;
  micro_batch_.lengths.push_back(row_length);
  micro_batch_.sample_offset.push_back(sample_offset);
  if (!limits_.known.column.empty() && limits_.last_is_target) {
    micro_batch_.missed.push_back(kept && kept->missed);
  }
  ++micro_batch_.num_samples;
}

LoadedRows MicroBatchBuilder::finish() {
  if (micro_batch_.lengths.empty()) {
    micro_batch_.lengths.push_back(0);
    micro_batch_.sample_offset.push_back(0);
    if (!limits_.known.column.empty() && limits_.last_is_target) micro_batch_.missed.push_back(0);
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
  LoadedRows done = std::move(micro_batch_);
  micro_batch_ = {};
  return done;
}

}  // namespace convoy::data
