#include "convoy/data/best_fit.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "convoy/base/error.h"

namespace convoy::data {

std::vector<std::vector<int64_t>> best_fit(const std::vector<int64_t>& lengths, int64_t capacity) {
  std::vector<int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  const auto length = [&](int64_t item) { return lengths[static_cast<size_t>(item)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return length(a) > length(b); });
  std::vector<std::vector<int64_t>> bins;
  std::set<std::pair<int64_t, int64_t>> spaces;  // free places of a bin, the bin
  for (const int64_t item : order) {
    if (length(item) < 1 || length(item) > capacity) {
      fail<UsageError>("data", "item {} has length {}; expected 1 to {}, the capacity of a bin",
                       item, length(item), capacity);
    }
    const auto found = spaces.lower_bound({length(item), 0});
    auto space = std::pair{capacity, std::ssize(bins)};
    if (found == spaces.end()) {
      bins.emplace_back();
    } else {
      space = *found;
      spaces.erase(found);
    }
    bins[static_cast<size_t>(space.second)].push_back(item);
    space.first -= length(item);
    if (space.first > 0) spaces.insert(space);
  }
  for (auto& bin : bins) std::sort(bin.begin(), bin.end());
  std::sort(bins.begin(), bins.end());
  return bins;
}

}  // namespace convoy::data
