#pragma once

#include <barrier>
#include <functional>
#include <vector>

#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/run/pass.h"

namespace convoy::planner {

using parallel::BlockCost;

/// Threads that profile the same blocks at once, as ranks of a host compute: each timed run begins
/// on all of them together.
class Neighbours {
 public:
  /// `alone`: what the blocks cost a thread alone, whose memory is its own.
  Neighbours(int number, const std::vector<BlockCost>& alone) : alone_(alone), barrier_(number) {}

  const std::vector<BlockCost>& alone() const { return alone_; }
  void meet() { barrier_.arrive_and_wait(); }
  /// Leaves, in a thread that ends before the others.
  void leave() { barrier_.arrive_and_drop(); }

 private:
  const std::vector<BlockCost>& alone_;
  std::barrier<> barrier_;
};

struct ProfileOptions {
  at::ScalarType compute_dtype = at::kFloat;
  uint64_t seed = 42;
  /// Rank whose share of the parameters is run; it is alone (comm::echo_group).
  comm::Group tensor = {};
  bool sequence_parallel = false;  ///< whether it has a share of the tokens, too
  comm::Group context = {};        ///< some positions of each row are run
  /// Number of rows for which scores take the memory of a GPU's, in a profile for another device.
  /// There only memory counts: all arithmetic is left out, and weights are zeros. 0: all is as on
  /// this host.
  int64_t gpu_rows = 0;
  /// Whether all arithmetic is left out, not only products; for trace(). Results that blocks keep
  /// for later runs are undefined then, so the blocks are good for nothing else afterwards.
  bool shapes_only = false;
  bool is_timed = true;              ///< else only memory counts
  Neighbours* neighbours = nullptr;  ///< of threads that profile at once
  bool by_rows = false;  ///< of tables that can be kept by rows only what is read is there
  /// Called with each block's number, the number of the first block that is like it and, for that
  /// first one, a function that runs it once more, forward and backward.
  std::function<void(size_t block, size_t like, const std::function<void()>& run)> again = {};
};

/// Runs the blocks one after the other, forward and backward, on the host; each has weights of its
/// own only while it runs, so that the memory of the dearest is all that is needed. Of blocks that
/// are alike, with inputs that are alike, one is run. `blocks` are good for nothing else
/// afterwards.
std::vector<BlockCost> profile(const nn::BlockList& blocks, const parallel::MicroBatch& batch,
                               const ProfileOptions& options);

/// Peak bytes of tensors while each block evaluates a micro-batch, its inputs included. Runs the
/// blocks forward as profile() does.
std::vector<int64_t> evaluation_bytes(const nn::BlockList& blocks,
                                      const parallel::MicroBatch& batch,
                                      const ProfileOptions& options);

}  // namespace convoy::planner
