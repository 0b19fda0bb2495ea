#pragma once

#include <cstdint>
#include <vector>

#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Costs of a block for a micro-batch, alike on all ranks: counted (planner::trace), its times are
/// operations of products of matrices; read from a file, they are seconds.
struct BlockCounts {
  double forward = 0;
  double backward = 0;  ///< both halves
  double weight = 0;    ///< of that the half that no stage waits for
  // Bytes of tensors; weights and their gradients are left out.
  double kept = 0;                 ///< from forward until backward, what it returns among it
  double put_off = 0;              ///< from the first half of a backward until the second
  double returned = 0;             ///< of what it returns: all that is kept where it is recomputed
  double sent = 0, sent_grad = 0;  ///< messages to a stage behind, and back
  double send = 0, send_grad = 0;  ///< seconds of these messages
  /// Approximate number of operations that a GPU launches, whatever the number of rows; none in a
  /// file.
  double forward_kernels = 0, backward_kernels = 0;
  double forward_made = 0, backward_made = 0;  ///< bytes that they return; none in a file

  /// Costs of `rows` times the rows.
  BlockCounts times(double rows) const {
    return {forward * rows,      backward * rows,     weight * rows,   kept * rows,
            put_off * rows,      returned * rows,     sent * rows,     sent_grad * rows,
            send * rows,         send_grad * rows,    forward_kernels, backward_kernels,
            forward_made * rows, backward_made * rows};
  }

  bool operator==(const BlockCounts&) const = default;
};

/// Bytes of a weight as blocks read it.
inline constexpr int64_t weight_bytes(bool low_precision) {
  return low_precision ? 2 : 4;
}

/// Bytes of a master beside a weight of 16 bits, and of a gradient.
inline constexpr int64_t kMasterBytes = 4, kGradientBytes = 4;

/// Facts about a step that follow from the model, its precision and its optimizer. Nobody chooses
/// them with a Parallelism.
struct StepFacts {
  bool trains = true;           ///< else no gradients and no moments are held
  bool low_precision = false;   ///< weights of 16 bits beside fp32 masters
  bool shares_weights = false;  ///< the ranks are threads on one copy of weights and moments
  int64_t state_bytes = 8;      ///< of a parameter, that the optimizer keeps
  /// Costs by block, of a micro-batch: stages are cut by them and schedules made for them. Empty:
  /// matrix elements, and bytes are not known.
  std::vector<BlockCounts> counts = {};
};

}  // namespace convoy::parallel
