#pragma once

#include "convoy/nn/block.h"

namespace convoy::models {

/// Buckets of distances that share learned values (Raffel et al., 2020): near distances have their
/// own, others one for a range that grows with the distance.
struct RelativeBuckets {
  int64_t count = 32;
  int64_t max_distance = 128;  ///< all beyond share the last
  bool both_sides = true;      ///< else what stands behind counts as distance 0
};

/// Buckets of `distances` int64 (position that is looked at minus position that looks), as Hugging
/// Face's T5 computes them.
at::Tensor relative_buckets(const at::Tensor& distances, const RelativeBuckets& buckets);

/// [1, H, T, seen + T] fp32: the values of `table` [count, H] for the last T of `seen` + T
/// positions looking at each of all of them.
at::Tensor relative_bias(const nn::ParamPtr& table, int64_t T, int64_t seen,
                         const RelativeBuckets& buckets);

}  // namespace convoy::models
