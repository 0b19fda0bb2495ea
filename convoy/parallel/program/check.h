#pragma once

#include <vector>

#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Program and layout of one rank of a job, and the ranks that it communicates with.
struct RankProgram {
  const Program& program;
  const Layout& layout;
  /// Ranks of its pipeline by stage, itself among them; a peer is one of them. Empty: itself alone.
  std::vector<int> pipeline = {};
  /// Ranks that share the samples of a step with it: gathers and reductions run among them. Empty:
  /// itself alone.
  std::vector<int> data = {};
  /// Ranks that share out its parameters: ReduceTensor runs among them. Empty: itself alone.
  std::vector<int> tensor = {};
};

/// Largest numbers alive at a time on a rank.
struct Alive {
  int64_t blocks = 0;   ///< blocks whose tensors are kept for backward, times micro-batches
  int64_t inputs = 0;   ///< blocks that are recomputed keep their inputs only, times micro-batches
  int64_t weights = 0;  ///< gathered, in elements
  int64_t put_off = 0;  ///< blocks whose weight half is yet to come, times micro-batches

  bool operator==(const Alive&) const = default;
};

/// Proves a step of several ranks sound and says what is alive at most, by rank. Throws
/// InternalError naming the rank and its first wrong instruction, or the one that is missing.
///
/// On each rank every forward has its input and every backward its gradient, computed here or
/// received; a backward is whole, or its input half comes before its weight half; what is
/// recomputed is so right before its backward; weights are there when they are read; a unit's
/// gradients are accumulated once per micro-batch, in their order, after the weight halves of all
/// its readers, which come from the last block to the first; what is in parts on tensor ranks is
/// summed over them after that, then every bucket is reduced (once, or once per micro-batch), and
/// then what is tied over stages; the step ends with ReduceLoss, Clip, and an update of every
/// bucket, whose new weights are gathered again where they are kept whole. Rows are fetched before
/// anything computes, and their gradients accumulated, reduced and used for an update likewise.
/// Messages between two ranks are received in the order sent; the collectives of a group come in
/// one order on its ranks; and no ranks wait for each other in a circle, where a receive and a
/// collective end only with their counterparts, and sends do not block.
std::vector<Alive> check(const std::vector<RankProgram>& ranks, const StepOptions& options);

/// Proves the program of one rank correct, or of ranks that all run it; throws like check() of
/// several programs.
Alive check(const Program& program, const Layout& layout, const StepOptions& options);

/// Proves programs correct, like check(), that compute one micro-batch forward: they end after
/// every block's forward, with all gathered weights released and rows scored.
void check_forward(const std::vector<RankProgram>& ranks);

/// Throws InternalError unless the ranks meet: the part of check() that looks at more than one.
void check_matching(const std::vector<RankProgram>& ranks);

}  // namespace convoy::parallel
