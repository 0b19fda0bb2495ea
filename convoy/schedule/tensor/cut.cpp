#include "convoy/schedule/tensor/cut.h"

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"

namespace convoy::schedule {

namespace {

size_t dim_of(const TensorCut& cut) {
  return static_cast<size_t>(cut.dim);
}

/// The readers that a rank has begin with this one.
int64_t first_reader(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  return part / cut.granule * cut.readers * rank / num_ranks;
}

/// Where the stretch of a rank begins and ends in a part.
int64_t begin_in(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  return first_reader(part, cut, rank, num_ranks) / cut.readers * cut.granule;
}
int64_t end_in(int64_t part, const TensorCut& cut, int64_t rank, int64_t num_ranks) {
  const int64_t end = first_reader(part, cut, rank + 1, num_ranks);
  return (end + cut.readers - 1) / cut.readers * cut.granule;
}

Shape parts_of(const Shape& shape, const TensorCut& cut) {
  return cut.parts.empty() ? Shape{shape.at(dim_of(cut))} : cut.parts;
}

bool is_cut(const TensorCut& cut, const TensorPlace& place) {
  return cut.dim >= 0 && place.num_ranks > 1;
}

}  // namespace

int64_t num_elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool overlaps(const Shape& shape, const TensorCut& cut, int num_ranks) {
  if (cut.dim < 0 || cut.readers == 1) return false;
  for (const int64_t part : parts_of(shape, cut)) {
    for (int rank = 1; rank < num_ranks; ++rank) {
      if (begin_in(part, cut, rank, num_ranks) < end_in(part, cut, rank - 1, num_ranks)) {
        return true;
      }
    }
  }
  return false;
}

int64_t most_ranks(const Shape& shape, const TensorCut& cut) {
  const auto parts = parts_of(shape, cut);
  return *std::min_element(parts.begin(), parts.end()) / cut.granule * cut.readers;
}

std::vector<Box> boxes(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  const Shape origin(shape.size(), 0);
  if (!is_cut(cut, place)) return {{origin, shape, origin}};
  const size_t dim = dim_of(cut);
  std::vector<Box> out;
  int64_t begin = 0, local = 0;
  const auto add = [&](int64_t first, int64_t size, bool owned) {
    Box box{origin, shape, origin, owned};
    box.begin[dim] = begin + first;
    box.size[dim] = size;
    box.local_begin[dim] = local;
    local += size;
    out.push_back(std::move(box));
  };
  for (const int64_t part : parts_of(shape, cut)) {
    internal_check(part % cut.granule == 0, "schedule", "a part of {} is no multiple of {}", part,
                   cut.granule);
    const int64_t first = begin_in(part, cut, place.rank, place.num_ranks);
    const int64_t end = end_in(part, cut, place.rank, place.num_ranks);
    const int64_t taken =
        place.rank == 0 ? first : end_in(part, cut, place.rank - 1, place.num_ranks);
    if (taken > first) add(first, taken - first, false);
    add(std::max(first, taken), end - std::max(first, taken), true);
    begin += part;
  }
  internal_check(begin == shape[dim], "schedule", "parts of {} cut a dimension of {}", begin,
                 shape[dim]);
  return out;
}

Shape local_shape(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  if (!is_cut(cut, place)) return shape;
  auto out = shape;
  const auto last = boxes(shape, cut, place).back();
  out[dim_of(cut)] = last.local_begin[dim_of(cut)] + last.size[dim_of(cut)];
  return out;
}

std::vector<Run> runs(const Shape& shape, const TensorCut& cut, const TensorPlace& place,
                      int64_t begin, int64_t length) {
  if (!is_cut(cut, place)) return {{begin, begin, length}};
  const size_t dim = dim_of(cut);
  const auto cuts = boxes(shape, cut, place);
  const int64_t inner =
      num_elements({shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end()});
  const int64_t row = shape[dim] * inner;  // of the parameter, along dim and all after it
  const int64_t local_row = local_shape(shape, cut, place)[dim] * inner;
  std::vector<Run> out;
  const int64_t end = begin + length;
  for (int64_t r = local_row == 0 ? 0 : begin / local_row; r * local_row < end && length > 0; ++r) {
    for (const auto& box : cuts) {
      const int64_t first = r * local_row + box.local_begin[dim] * inner;
      const int64_t from = std::max(begin, first);
      const int64_t to = std::min(end, first + box.size[dim] * inner);
      if (from >= to) continue;
      const int64_t global = r * row + box.begin[dim] * inner + from - first;
      if (!out.empty() && out.back().owned == box.owned &&
          out.back().global + out.back().length == global) {
        out.back().length += to - from;
      } else {
        out.push_back({global, from, to - from, box.owned});
      }
    }
  }
  return out;
}

}  // namespace convoy::schedule
