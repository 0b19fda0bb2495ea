#pragma once

#include <compare>

#include "convoy/parallel/mesh.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::planner {

using parallel::Parallelism;
using parallel::StepFacts;

/// Share of a micro-batch of `rows` rows that a rank computes: one of `tensor` shares of the
/// layers, and one of `context` shares of the positions. Ranks with equal shares compute as long.
struct BlockShare {
  int64_t rows = 1;
  int tensor = 1, context = 1;
  bool sequence = false;  ///< tensor ranks share out the tokens between their products, too

  auto operator<=>(const BlockShare&) const = default;
};

/// Share of a rank in a run over a mesh.
inline BlockShare share_of(const parallel::Mesh& mesh, const Parallelism& split) {
  return {split.rows, mesh.degree(parallel::Axis::Tensor), mesh.degree(parallel::Axis::Context),
          split.sequence_parallel};
}

inline BlockShare share_of(const Parallelism& split) {
  return share_of(split.mesh(), split);
}

}  // namespace convoy::planner
