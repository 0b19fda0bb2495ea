#pragma once

#include <cstdint>
#include <vector>

namespace convoy::schedule {

using Shape = std::vector<int64_t>;

/// How tensor-parallel ranks share out a parameter: along one dimension each part is cut into as
/// many stretches as there are ranks, as equal as whole granules allow; a rank has one of each
/// part, side by side.
struct TensorCut {
  int64_t dim = -1;     ///< -1: every rank has all of it
  Shape parts = {};     ///< sizes along `dim`, such as of q | k | v; empty: one part
  int64_t granule = 1;  ///< what stays together along `dim`, such as a head's width
};

/// Which of the ranks that share out parameters one is.
struct TensorPlace {
  int rank = 0;
  int num_ranks = 1;
};

/// Some of a parameter's elements, in its global shape and in what one rank has of it.
struct Box {
  Shape begin;  ///< in the global shape
  Shape size;
  Shape local_begin;  ///< in the local shape

  bool operator==(const Box&) const = default;
};

/// Elements that lie side by side in the parameter and in what one rank has of it, both flattened.
struct Run {
  int64_t global = 0;
  int64_t local = 0;
  int64_t length = 0;

  bool operator==(const Run&) const = default;
};

int64_t num_elements(const Shape& shape);

/// The shape of what a rank has of a parameter.
Shape local_shape(const Shape& shape, const TensorCut& cut, const TensorPlace& place);

/// A box for each part, in order; boxes may be empty. Throws InternalError when the parts are not
/// the dimension.
std::vector<Box> boxes(const Shape& shape, const TensorCut& cut, const TensorPlace& place);

/// Where the elements [begin, begin + length) of what a rank has, flattened, lie in the parameter.
std::vector<Run> runs(const Shape& shape, const TensorCut& cut, const TensorPlace& place,
                      int64_t begin, int64_t length);

}  // namespace convoy::schedule
