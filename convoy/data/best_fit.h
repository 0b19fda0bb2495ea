#pragma once

#include <cstdint>
#include <vector>

namespace convoy::data {

/// Packs items of these lengths into bins of `capacity`: best fit, the longest first. Returns the
/// items of each bin, ascending; bins come in the order of their first items. A function of the
/// lengths alone, in O(n log n). Throws UsageError on an item that is longer than a bin, or not
/// above 0.
std::vector<std::vector<int64_t>> best_fit(const std::vector<int64_t>& lengths, int64_t capacity);

}  // namespace convoy::data
