#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "convoy/parallel/tensor/cut.h"

namespace convoy::models {

/// Heads of queries and of keys that one of the ranks that share them out has.
struct HeadsHere {
  int64_t first_query = 0, queries = 0, first_key = 0, keys = 0;
  int64_t readers = 1;  ///< heads of queries that read one of keys

  static HeadsHere of(int64_t queries, int64_t keys, const parallel::TensorPlace& place);

  /// Number among `keys` of the head that each head of queries reads; empty where each serves as
  /// many as the others, one after the other.
  std::vector<int64_t> keys_read() const;
  /// keys_read() on a device, [queries]; undefined where that is empty.
  at::Tensor keys_read_on(at::Device device) const;
};

}  // namespace convoy::models
