#pragma once

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/parallel/gradients.h"
#include "convoy/parallel/transfers.h"
#include "convoy/parallel/update.h"

namespace convoy::parallel {

/// The rows that one device computes at once. A short last batch may leave a device without any.
struct MicroBatch {
  nn::Bundle inputs;
  at::Tensor samples;  ///< [rows] int64 on the host: index of each row in the step's global batch
  nn::Bundle loaded;  ///< the inputs before they went to another device; empty while they are there
  std::shared_ptr<nn::KvCache> cache;  ///< for prediction: of the positions before

  bool empty() const { return !samples.defined() || samples.numel() == 0; }
};

/// What a run of a program gives to the blocks.
struct PassInput {
  const std::vector<MicroBatch>& micro_batches;
  const StepInput& step;
  nn::Mode mode = nn::Mode::Train;
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
};

/// What lies between the blocks during a run: each block's inputs are detached, and the gradients
/// carried from block to block. A micro-batch is on the device from its load to the last backward
/// here; one without rows is skipped.
class Pass {
 public:
  /// Blocks and micro-batches of `program`'s Recomputes keep their inputs only.
  Pass(const nn::BlockList& blocks, const schedule::Layout& layout, Gradients& gradients,
       const PassInput& input, const schedule::Program& program);

  void load(int64_t m);
  void forward(int64_t block, int64_t m);
  void recompute(int64_t block, int64_t m);
  void backward(int64_t block, int64_t m);
  bool empty(int64_t m) const { return input_.micro_batches.at(static_cast<size_t>(m)).empty(); }
  int64_t num_micro_batches() const { return static_cast<int64_t>(input_.micro_batches.size()); }
  /// What a block returned, until it is sent on.
  const nn::Bundle& output(int64_t block, int64_t m) { return at(outs_, block, m); }
  /// What the last block returned.
  nn::Bundle& result(int64_t m) { return outs_[static_cast<size_t>(m)].back(); }

  /// Carries out a send or a receive.
  void transfer(const schedule::Instruction& instruction, Transfers& transfers);

 private:
  using Bundles = std::vector<std::vector<nn::Bundle>>;  // [micro-batch][block]

  nn::Bundle run(int64_t block, int64_t m) const;
  void bind_grads(int64_t block, int64_t m);
  nn::Bundle take_gradient_after(int64_t block, int64_t m);
  nn::Bundle outgoing(const schedule::Instruction& instruction);
  static nn::Bundle& at(Bundles& bundles, int64_t block, int64_t m) {
    return bundles[static_cast<size_t>(m)].at(static_cast<size_t>(block));
  }

  const nn::BlockList& blocks_;
  const schedule::Layout& layout_;
  Gradients& gradients_;
  PassInput input_;
  int64_t first_block_ = 0;          // that is held
  std::vector<MicroBatch> batches_;  // on the device
  Bundles ins_, outs_;
  Bundles grads_;                                     // received, of outs
  std::set<std::pair<int64_t, int64_t>> recomputed_;  // (block, micro-batch)
};

/// Cuts the graph: tensors that carry a gradient become leaves.
nn::Bundle detached(const nn::Bundle& bundle);

/// The tensor of that name; throws UsageError when the model's last block returned none.
const at::Tensor& required(const nn::Bundle& bundle, const char* name);

}  // namespace convoy::parallel
