#pragma once

#include <cstdint>
#include <vector>

namespace convoy::parallel {

using Shape = std::vector<int64_t>;

/// Experts of a layer whose weights a parameter has, along its first dimension.
struct ExpertRange {
  int64_t first = 0, count = 0;
  int64_t of = 0;  ///< number of experts of the layer; 0: the parameter is not of experts
};

/// Partition of a parameter over tensor-parallel ranks: along one dimension each part is cut into
/// as many stretches as there are ranks, as equal as whole granules allow; a rank has one stretch
/// of each part, side by side. Where granules have `readers`, the readers are shared out, and a
/// rank has the granules that its readers read: stretches overlap where readers of one granule are
/// of several ranks.
struct TensorCut {
  int64_t dim = -1;          ///< -1: every rank has all of it
  Shape parts = {};          ///< sizes along `dim`, such as of q | k | v; empty: one part
  int64_t granule = 1;       ///< elements that stay together along `dim`, such as a head's width
  int64_t readers = 1;       ///< of each granule: queries' heads that read one of keys
  Shape part_readers = {};   ///< by part, where parts differ; empty: `readers`
  Shape part_granules = {};  ///< by part, where parts differ; empty: `granule`
  /// Whether each rank knows only a part of the gradient of a parameter that every rank has whole,
  /// such as its own heads' contribution; the parts are summed.
  bool partial_grad = false;
  /// Experts, which expert-parallel ranks deal out: each has as many whole ones, side by side. Of
  /// one expert a rank has all or nothing, then cut as above; of several it has some rows.
  ExpertRange experts = {};
};

/// Upper bounds of the rows of a table that a training step reads, where its blocks can tell which.
struct RowReads {
  int64_t of_step = 0;    ///< whatever its samples are
  int64_t of_sample = 0;  ///< of each of them
};

/// Place of a rank among those that share out parameters.
struct TensorPlace {
  int rank = 0;
  int num_ranks = 1;
  int expert_rank = 0;  ///< among those that share out experts
  int num_expert_ranks = 1;
};

/// Whether these ranks deal out the experts that a parameter has.
inline bool is_dealt(const TensorCut& cut, const TensorPlace& place) {
  return cut.experts.of > 0 && place.num_expert_ranks > 1;
}

/// Some of a parameter's elements, in its global shape and in one rank's part of it.
struct TensorBox {
  Shape begin;  ///< in the global shape
  Shape size;
  Shape local_begin;  ///< in the local shape
  bool owned = true;  ///< no rank before has it

  bool operator==(const TensorBox&) const = default;
};

/// Rows of elements that lie side by side in the parameter and in one rank's part of it, both
/// flattened; equally far from row to row.
struct StridedRange {
  int64_t global = 0;  ///< begin of the first one
  int64_t local = 0;
  int64_t length = 0;  ///< of a row
  bool owned = true;   ///< no rank before has it
  int64_t rows = 1;
  int64_t global_stride = 0;  ///< of one row 0
  int64_t local_stride = 0;

  bool operator==(const StridedRange&) const = default;
};

int64_t num_elements(const Shape& shape);

/// Shape of a rank's part of a parameter.
Shape local_shape(const Shape& shape, const TensorCut& cut, const TensorPlace& place);
int64_t local_elements(const Shape& shape, const TensorCut& cut, const TensorPlace& place);

/// Whether several of `num_ranks` hold some of the same elements of a parameter that is cut.
bool overlaps(const Shape& shape, const TensorCut& cut, int num_ranks);

/// Largest number of ranks that can share out a cut parameter, each with some of it.
int64_t most_ranks(const Shape& shape, const TensorCut& cut);

/// Boxes of a rank: one for each part, in order, and where stretches overlap one more for elements
/// that a rank before has, too; boxes may be empty. Throws InternalError when the parts are not the
/// dimension.
std::vector<TensorBox> boxes(const Shape& shape, const TensorCut& cut, const TensorPlace& place);

/// Boxes of a rank that have the shape they have on every other rank that holds them: one for each
/// granule of a part whose granules have several readers, else one for each part.
std::vector<TensorBox> common_boxes(const Shape& shape, const TensorCut& cut,
                                    const TensorPlace& place);

/// Runs in the parameter of the elements [begin, begin + length) of a rank's part, flattened; each
/// once, in ascending order of where runs begin.
std::vector<StridedRange> runs(const Shape& shape, const TensorCut& cut, const TensorPlace& place,
                               int64_t begin, int64_t length);

}  // namespace convoy::parallel
