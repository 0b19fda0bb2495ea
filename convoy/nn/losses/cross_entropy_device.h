#pragma once

#include "convoy/nn/losses/cross_entropy.h"

// Shapes: N positions with a target, D model width, C items.
namespace convoy::nn {

/// Inputs and gradients of cross_entropy() on a GPU. Gradients are fp32, undefined where none is
/// wanted.
struct DeviceLoss {
  at::Tensor input, items, bias;  ///< [N, D], [C, D]; [C] or undefined
  at::Tensor columns;             ///< [N] int64
  double temperature = 1, cap = 0;
  at::Tensor h_grad, table_grad, bias_grad;  ///< [N, D] is written, the others are added to
  bool fresh = false;                        ///< table_grad has no content yet
  at::Tensor weights = {};  ///< [N] fp32 of the rows in loss and table_grad, or undefined
};

/// Bytes that add_device_loss() holds at once for scores [R, C].
int64_t device_loss_bytes(int64_t R, int64_t C, at::ScalarType dtype, double temperature,
                          double cap);

/// Adds to out.loss and, where it is there, out.correct. Scores are there for `piece` rows at once,
/// each row on a boundary of 64 numbers, so that products read and write them aligned.
///
/// bf16 moves 10 bytes a score: written, read by a kernel that puts the slope in its place (from
/// caches where it reads it again), and read by both products. Where that kernel cannot run,
/// torch's operations move 12: the softmax is a second tensor, which is read once more for the sum
/// of what is not the target's. That sum is the target's slope, which 16 bits could not tell from
/// one minus one, and gives the loss where it is small; else the target's probability does, as that
/// of 87 at most.
void add_device_loss(const DeviceLoss& loss, int64_t piece, CrossEntropy& out);

}  // namespace convoy::nn
