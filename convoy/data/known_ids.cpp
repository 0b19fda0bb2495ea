#include "convoy/data/known_ids.h"

namespace convoy::data {

KnownPlaces known_places(const KnownIds& known, const Column& column, int64_t begin, int64_t length,
                         bool has_target) {
  KnownPlaces out;
  const auto id = [&](int64_t i) { return column.ints[static_cast<size_t>(begin + i)]; };
  const bool ranks = has_target && length > 1;
  const int64_t inputs = ranks ? length - 1 : length;
  for (int64_t i = 0; i < inputs; ++i) {
    if (known.knows(id(i))) out.places.push_back(i);
  }
  if (!ranks) return out;
  const bool empty = out.places.empty();
  out.missed = id(inputs) >= known.size() || empty;
  if (empty || (out.missed && !known.keeps_missed)) {
    out.places.clear();
  } else {
    out.places.push_back(inputs);
  }
  return out;
}

}  // namespace convoy::data
