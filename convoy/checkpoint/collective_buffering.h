#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/parallel/buffers/state.h"

namespace convoy::checkpoint {

class SharedBlocks;

/// Collective buffering, as MPI-IO calls it, of tensors whose rows are cut between the ranks of a
/// host. A file takes many small pieces far slower than a few large ones. So the ranks put blocks
/// of whole rows together in memory that they share, a few megabytes, and rank 0 writes these.
class CollectiveBuffering {
 public:
  /// Elements [begin, begin + values.numel()) of a tensor: valid during the call.
  using Write = std::function<void(size_t tensor, int64_t begin, const at::Tensor& values)>;

  /// Collective. Takes the pieces of such tensors out of `state`: all owned by this rank. Takes
  /// nothing where a rank is on another host.
  CollectiveBuffering(parallel::State& state, const comm::Group& group);
  ~CollectiveBuffering();
  CollectiveBuffering(const CollectiveBuffering&) = delete;
  CollectiveBuffering& operator=(const CollectiveBuffering&) = delete;

  /// Calls `write` on rank 0 for all ranks' pieces. All ranks call this. Calls `between`, which may
  /// throw, while it waits for others. Returns early where another rank gave up.
  void run(const Write& write, const std::function<void()>& between);
  /// Ends run() of the other ranks.
  void abandon() noexcept;

 private:
  struct Block {
    size_t tensor;
    int64_t begin, end;  // elements
  };

  /// Copies what this rank has of it. Returns the bytes.
  size_t fill(const Block& block, char* to) const;

  bool writes_;
  parallel::State tensors_;  // [tensor] of the state, with pieces where it is buffered
  std::vector<Block> blocks_;
  std::unique_ptr<SharedBlocks> shared_;
};

}  // namespace convoy::checkpoint
