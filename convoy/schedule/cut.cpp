#include "convoy/schedule/cut.h"

#include <algorithm>
#include <numeric>

#include "convoy/base/error.h"

namespace convoy::schedule {

namespace {

size_t dim_of(const TensorCut& cut) {
  return static_cast<size_t>(cut.dim);
}

/// Where the stretch of a rank begins in a part.
int64_t bound(int64_t part, int64_t granule, int64_t rank, int64_t num_ranks) {
  return part / granule * rank / num_ranks * granule;
}

bool is_cut(const TensorCut& cut, const TensorPlace& place) {
  return cut.dim >= 0 && place.num_ranks > 1;
}

}  // namespace

int64_t num_elements(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

std::vector<Box> boxes(const Shape& shape, const TensorCut& cut, const TensorPlace& place) {
  const Shape origin(shape.size(), 0);
  if (!is_cut(cut, place)) return {{origin, shape, origin}};
  const size_t dim = dim_of(cut);
  const auto parts = cut.parts.empty() ? Shape{shape.at(dim)} : cut.parts;
  std::vector<Box> out;
  int64_t begin = 0, local = 0;
  for (const int64_t part : parts) {
    internal_check(part % cut.granule == 0, "schedule", "a part of {} is no multiple of {}", part,
                   cut.granule);
    const int64_t first = bound(part, cut.granule, place.rank, place.num_ranks);
    Box box{origin, shape, origin};
    box.begin[dim] = begin + first;
    box.size[dim] = bound(part, cut.granule, place.rank + 1, place.num_ranks) - first;
    box.local_begin[dim] = local;
    local += box.size[dim];
    begin += part;
    out.push_back(std::move(box));
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
      if (!out.empty() && out.back().global + out.back().length == global) {
        out.back().length += to - from;
      } else {
        out.push_back({global, from, to - from});
      }
    }
  }
  return out;
}

}  // namespace convoy::schedule
