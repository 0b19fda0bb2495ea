#pragma once

#include <cstdint>

namespace convoy::nn {

/// Heads of a layer with the gated delta rule. Each head of keys serves as many neighbouring heads
/// of values as the others.
struct DeltaHeads {
  int64_t keys = 0, values = 0;            ///< numbers of heads
  int64_t key_width = 0, value_width = 0;  ///< of a head

  int64_t values_of_key() const { return values / keys; }
  int64_t all_keys() const { return keys * key_width; }
  int64_t all_values() const { return values * value_width; }
  /// Columns of queries, keys and values side by side.
  int64_t columns() const { return 2 * all_keys() + all_values(); }
  /// Elements of the state of a row.
  int64_t state() const { return values * key_width * value_width; }
};

}  // namespace convoy::nn
