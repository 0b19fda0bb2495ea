#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/parallel/run/flat_buffers.h"

namespace convoy::parallel {

/// Some elements of a tensor, flattened, in a replica's memory.
struct StatePiece {
  int64_t begin = 0;
  at::Tensor values;
  bool owned = true;       ///< of all that keep these elements one rank counts and writes them
  bool offloaded = false;  ///< a view of where they are stored: not to be copied into memory
  bool writes = owned;     ///< another one, where the state replicas can share the writing
};

/// A tensor of a model's state by its global name, and those of its elements that are here.
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  std::vector<StatePiece> pieces;
  bool is_buffer = false;  ///< no parameter
};

/// Every tensor of a model, in the same order on all ranks.
using State = std::vector<StateTensor>;

/// The fp32 weights: a rank's own parts, and `buffers`, which all keep and rank 0 owns.
State weights_of(const FlatBuffers& flat, const std::vector<nn::NamedTensor>& buffers,
                 const comm::Groups& groups);

/// The optimizer's moments as `<moment>.<parameter>`, by optim::StateSpec.
State moments_of(const FlatBuffers& flat, const comm::Groups& groups);

/// The states of replicas in one process as one.
State merged(std::vector<State> states);

}  // namespace convoy::parallel
