#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/parallel/buffers/flat_buffers.h"
#include "convoy/parallel/buffers/held_rows.h"
#include "convoy/parallel/host_share.h"

namespace convoy::parallel {

/// Some elements of a tensor, flattened, in a replica's memory: side by side, or rows of them.
struct StatePiece {
  int64_t begin = 0;
  at::Tensor values;       ///< [length], or with a stride [rows, length]
  bool owned = true;       ///< of all that keep these elements one rank counts and writes them
  bool offloaded = false;  ///< a view of where they are stored: not to be copied into memory
  bool writes = owned;     ///< another one, where the state replicas can share the writing
  int64_t stride = 0;      ///< elements of the tensor from row to row
  /// Set where `values` are rows that a step changes one by one, so that whoever wants their
  /// present values beside the training need not copy all of them.
  std::shared_ptr<ChangingRows> changing = {};
  std::shared_ptr<HeldRows> held = {};  ///< as they were at some time; in place of `values`
  int64_t first_held = 0;               ///< the first row's number there
  bool constant = false;                ///< no step changes them: there is no need for a copy

  int64_t rows() const { return stride == 0 ? 1 : values.size(0); }
  int64_t length() const { return stride == 0 ? values.numel() : values.size(1); }
  /// Rows [first, first + count): of one that lies side by side elements.
  StatePiece part(int64_t first, int64_t count) const;
  /// Returns the whole state, in parts of about so many bytes.
  std::vector<StatePiece> parts(int64_t bytes) const;
  /// Returns the values on the host, one after the other. What is held is taken.
  at::Tensor on_host() const;
};

/// Calls `use` with where each row of a piece begins: in the tensor, and in the piece's elements
/// one after the other; and with its length. Rows that touch are one.
template <class Use>
void each_row(const StatePiece& piece, const Use& use) {
  if (piece.stride == piece.length()) return use(piece.begin, 0, piece.values.numel());
  for (int64_t row = 0; row < piece.rows(); ++row) {
    use(piece.begin + row * piece.stride, row * piece.length(), piece.length());
  }
}

/// A tensor of a model's state by its global name, and those of its elements that are here.
struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  std::vector<StatePiece> pieces;
  bool is_buffer = false;  ///< no parameter
  bool trained = true;
};

/// Every tensor of a model, in the same order on all ranks.
using State = std::vector<StateTensor>;

/// Returns the fp32 weights: a rank's own parts, and `buffers`, which all keep and rank 0 owns.
State weights_of(const FlatBuffers& flat, const std::vector<nn::NamedTensor>& buffers,
                 const comm::Groups& groups);

/// Returns the optimizer's moments as `<moment>.<parameter>`, by optim::StateSpec.
State moments_of(const FlatBuffers& flat, const comm::Groups& groups);

/// Weights and moments, of which each rank of a host `writes` its share: the host's ranks write
/// all.
State weights_of_host(const FlatBuffers& flat, const std::vector<nn::NamedTensor>& buffers,
                      const HostShare& share);
State moments_of_host(const FlatBuffers& flat, const HostShare& share);

/// Returns the states of replicas in one process as one.
State merged(std::vector<State> states);

}  // namespace convoy::parallel
