#include "convoy/parallel/tensor/cut.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "convoy/base/error.h"

namespace convoy::parallel {

namespace {

size_t dim_of(const TensorCut& cut) {
  return static_cast<size_t>(cut.dim);
}

/// First of the readers that a rank has.
int64_t first_reader(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  return part / cut.granule * cut.readers * rank / num_ranks;
}

/// Returns the bounds of a rank's range in a part.
int64_t begin_in(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  return first_reader(part, cut, rank, num_ranks) / cut.readers * cut.granule;
}
int64_t end_in(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  const int64_t end = first_reader(part, cut, rank + 1, num_ranks);
  return (end + cut.readers - 1) / cut.readers * cut.granule;
}

/// Cut of one part alone.
TensorCut cut_of(const TensorCut& cut, size_t part) {
  auto out = cut;
  if (!cut.part_readers.empty()) out.readers = cut.part_readers.at(part);
  if (!cut.part_granules.empty()) out.granule = cut.part_granules.at(part);
  return out;
}

Shape parts_of(const Shape& shape, const TensorCut& cut) {
  return cut.parts.empty() ? Shape{shape.at(dim_of(cut))} : cut.parts;
}

bool is_cut(const TensorCut& cut, const TensorPlace& place) {
  return cut.dim >= 0 && place.num_ranks > 1;
}

/// Part of a parameter that an expert rank has, before tensor ranks cut it.
struct Dealt {
  Shape shape;
  int64_t first = 0;  ///< row of the parameter
};

Dealt dealt(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  const auto& experts = cut.experts;
  const auto row = [&](int64_t rank) {
    const int64_t expert = experts.of * rank / place.num_expert_ranks - experts.first;
    return shape.at(0) / experts.count * std::clamp<int64_t>(expert, 0, experts.count);
  };
  Dealt out{shape, row(place.expert_rank)};
  out.shape[0] = row(place.expert_rank + 1) - out.first;
  return out;
}

TensorPlace without_experts(const TensorPlace& place) {
  return {place.rank, place.num_ranks};
}

/// Size of a rank's part of the dimension that is cut.
int64_t local_size(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  const auto of = [&](int64_t part, const TensorCut& how) {
    return end_in(part, how, place.rank, place.num_ranks) -
           begin_in(part, how, place.rank, place.num_ranks);
  };
  if (cut.parts.empty()) return of(shape.at(dim_of(cut)), cut);
  int64_t out = 0;
  for (size_t p = 0; p < cut.parts.size(); ++p) out += of(cut.parts[p], cut_of(cut, p));
  return out;
}

/// Appends a range, or extends the last one where they are adjacent.
void append(std::vector<StridedRange>& runs, const StridedRange& run) {
  if (run.length <= 0) return;
  if (!runs.empty()) {
    auto& last = runs.back();
    if (last.rows == 1 && run.rows == 1 && last.owned == run.owned &&
        last.global + last.length == run.global && last.local + last.length == run.local) {
      last.length += run.length;
      return;
    }
  }
  runs.push_back(run);
}

/// Repeats the range of one row for `count` rows, from row `first` on.
StridedRange repeated(StridedRange run, int64_t first, int64_t count, int64_t row,
                      int64_t local_row) {
  run.global += first * row;
  run.local += first * local_row;
  if (run.length == row) {  // there is nothing between the rows
    run.length *= count;
  } else if (count > 1) {
    run.rows = count;
    run.global_stride = row;
    run.local_stride = local_row;
  }
  return run;
}

}  // namespace

int64_t num_elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool overlaps(const Shape& shape, const TensorCut& cut, int num_ranks) {
  if (cut.dim < 0 || (cut.readers == 1 && cut.part_readers.empty())) return false;
  const auto parts = parts_of(shape, cut);
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto how = cut_of(cut, p);
    for (int rank = 1; rank < num_ranks; ++rank) {
      if (begin_in(parts[p], how, rank, num_ranks) < end_in(parts[p], how, rank - 1, num_ranks)) {
        return true;
      }
    }
  }
  return false;
}

int64_t most_ranks(const Shape& shape, const TensorCut& cut) {
  const auto parts = parts_of(shape, cut);
  int64_t most = std::numeric_limits<int64_t>::max();
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto how = cut_of(cut, p);
    most = std::min(most, parts[p] / how.granule * how.readers);
  }
  return most;
}

std::vector<TensorBox> boxes(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  if (is_dealt(cut, place)) {
    const auto here = dealt(shape, cut, place);
    auto out = boxes(here.shape, cut, without_experts(place));
    for (auto& box : out) box.begin[0] += here.first;
    return out;
  }
  const Shape origin(shape.size(), 0);
  if (!is_cut(cut, place)) return {{origin, shape, origin}};
  const size_t dim = dim_of(cut);
  std::vector<TensorBox> out;
  int64_t begin = 0, local = 0;
  const auto add = [&](int64_t first, int64_t size, bool owned) {
    TensorBox box{origin, shape, origin, owned};
    box.begin[dim] = begin + first;
    box.size[dim] = size;
    box.local_begin[dim] = local;
    local += size;
    out.push_back(std::move(box));
  };
  const auto parts = parts_of(shape, cut);
  for (size_t p = 0; p < parts.size(); ++p) {
    const int64_t part = parts[p];
    const auto how = cut_of(cut, p);
    internal_check(part % how.granule == 0, "parallel", "a part of {} is no multiple of {}", part,
                   how.granule);
    const int64_t first = begin_in(part, how, place.rank, place.num_ranks);
    const int64_t end = end_in(part, how, place.rank, place.num_ranks);
    const int64_t taken =
        place.rank == 0 ? first : end_in(part, how, place.rank - 1, place.num_ranks);
    if (taken > first) add(first, taken - first, false);
    add(std::max(first, taken), end - std::max(first, taken), true);
    begin += part;
  }
  internal_check(begin == shape[dim], "parallel", "parts of {} cut a dimension of {}", begin,
                 shape[dim]);
  return out;
}

std::vector<TensorBox> common_boxes(const Shape& shape, const TensorCut& cut,
                                    const TensorPlace& place) {
  auto whole = boxes(shape, cut, place);
  if (!is_cut(cut, place) || !overlaps(shape, cut, place.num_ranks)) return whole;
  const size_t dim = dim_of(cut);
  const auto parts = parts_of(shape, cut);
  std::vector<TensorBox> out;
  for (const auto& box : whole) {
    size_t part = 0;
    for (int64_t end = parts[0]; end <= box.begin[dim] && part + 1 < parts.size();) {
      end += parts[++part];
    }
    const int64_t size = cut_of(cut, part).readers > 1 ? cut_of(cut, part).granule : box.size[dim];
    for (int64_t at = 0; at < box.size[dim]; at += size) {
      out.push_back(box);
      out.back().begin[dim] += at;
      out.back().local_begin[dim] += at;
      out.back().size[dim] = size;
    }
  }
  return out;
}

Shape local_shape(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  auto out = is_dealt(cut, place) ? dealt(shape, cut, place).shape : shape;
  if (is_cut(cut, place)) out[dim_of(cut)] = local_size(out, cut, place);
  return out;
}

int64_t local_elements(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  if (is_dealt(cut, place)) {
    return local_elements(dealt(shape, cut, place).shape, cut, without_experts(place));
  }
  const int64_t all = num_elements(shape);
  if (all == 0 || !is_cut(cut, place)) return all;
  return all / shape[dim_of(cut)] * local_size(shape, cut, place);
}

std::vector<StridedRange> runs(const Shape& shape, const TensorCut& cut, const TensorPlace& place,
                               int64_t begin, int64_t length) {
  if (is_dealt(cut, place)) {
    const auto here = dealt(shape, cut, place);
    auto out = runs(here.shape, cut, without_experts(place), begin, length);
    const int64_t before = here.first * (num_elements(shape) / shape.at(0));
    for (auto& run : out) run.global += before;
    return out;
  }
  if (!is_cut(cut, place)) return {{begin, begin, length}};
  const size_t dim = dim_of(cut);
  const auto cuts = boxes(shape, cut, place);
  const int64_t inner =
      num_elements({shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end()});
  const int64_t row = shape[dim] * inner;  // of the parameter, along dim and all after it
  const int64_t local_row = local_shape(shape, cut, place)[dim] * inner;
  std::vector<StridedRange> pattern;  // of one row
  for (const auto& box : cuts) {
    append(pattern, {box.begin[dim] * inner, box.local_begin[dim] * inner, box.size[dim] * inner,
                     box.owned});
  }
  if (local_row == 0 || length == 0) return {};
  const int64_t end = begin + length;
  // Rows of which all is asked for, and what is asked for of the rows before and after.
  const int64_t first = (begin + local_row - 1) / local_row, last = end / local_row;
  std::vector<StridedRange> out;
  const auto add_some_of = [&](int64_t r) {
    for (const auto& run : pattern) {
      const int64_t from = std::max(begin, r * local_row + run.local);
      const int64_t to = std::min(end, r * local_row + run.local + run.length);
      append(out,
             {r * row + run.global + from - r * local_row - run.local, from, to - from, run.owned});
    }
  };
  if (begin < first * local_row) add_some_of(first - 1);
  for (const auto& run : pattern) {
    if (first < last) append(out, repeated(run, first, last - first, row, local_row));
  }
  if (last >= first && last * local_row < end) add_some_of(last);
  return out;
}

}  // namespace convoy::parallel
