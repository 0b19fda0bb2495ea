#pragma once

#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "convoy/nn/block.h"
#include "convoy/nn/deferred_weight_grads.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/buffers/update.h"
#include "convoy/parallel/data/torch/gradients.h"
#include "convoy/parallel/pipeline/torch/p2p_communication.h"

namespace convoy::parallel {

/// Inputs of the blocks in a run of a program.
struct PassInput {
  const std::vector<MicroBatch>& micro_batches;
  const StepInput& step;
  nn::Mode mode = nn::Mode::Train;
  at::ScalarType compute_dtype = at::kFloat;
  at::Device device = at::kCPU;
  comm::Group tensor = {};
  bool sequence_parallel = false;  ///< the tensor ranks share out tokens
  comm::Group context = {};        ///< its ranks share out the positions of rows
  comm::Group experts = {};        ///< its ranks share out experts
  bool expert_joined = false;      ///< and multiply the rows of all at once
};

/// Bundles between the blocks during a run: each block's inputs are detached, and the gradients
/// carried from block to block. A micro-batch is on the device from its load to the last backward
/// here; one without rows is skipped, but for experts of this rank that other ranks' rows go to.
class Pass {
 public:
  /// Blocks and micro-batches of `program`'s Recomputes keep their inputs only.
  Pass(const nn::BlockList& blocks, const Layout& layout, Gradients& gradients,
       const PassInput& input, const Program& program);

  void load(int64_t m);
  void forward(int64_t block, int64_t m);
  void recompute(int64_t block, int64_t m);
  void backward(int64_t block, int64_t m);
  /// Backward in two halves: the inputs' gradients first. Products of weights' gradients are put
  /// off until the second, but for parameters that several blocks read.
  void backward_input(int64_t block, int64_t m);
  void backward_weight(int64_t block, int64_t m);
  bool empty(int64_t m) const { return given_up_ || has_no_rows(m); }
  /// Frees all bundles between the blocks. From now on the pass behaves as if there were no rows;
  /// other stages get a notice in place of each bundle.
  void give_up();
  const PassInput& input() const { return input_; }
  int64_t num_micro_batches() const { return static_cast<int64_t>(input_.micro_batches.size()); }
  /// Result of a block, until it is sent on.
  const nn::Bundle& output(int64_t block, int64_t m) { return at(outs_, block, m); }
  /// Result of the last block.
  nn::Bundle& result(int64_t m) { return outs_[static_cast<size_t>(m)].back(); }

  /// Carries out a send or a receive.
  void transfer(const Instruction& instruction, P2PCommunication& p2p);

 private:
  bool has_no_rows(int64_t m) const {
    return input_.micro_batches.at(static_cast<size_t>(m)).empty();
  }
  using Bundles = std::vector<std::vector<nn::Bundle>>;  // [micro-batch][block]

  bool learns(int64_t block, int64_t m) const;
  nn::Bundle run(int64_t block, int64_t m, bool recomputes = false) const;
  nn::Context context_of(int64_t block) const;
  void serve(int64_t block, int64_t m, bool first);
  bool learns_without_rows(int64_t block) const;
  void bind_grads(int64_t block, int64_t m);
  void run_backward(int64_t block, int64_t m);
  void count_backward(int64_t m);
  nn::Bundle take_gradient_after(int64_t block, int64_t m);
  nn::Bundle outgoing(const Instruction& instruction);
  static nn::Bundle& at(Bundles& bundles, int64_t block, int64_t m) {
    return bundles[static_cast<size_t>(m)].at(static_cast<size_t>(block));
  }

  const nn::BlockList& blocks_;
  const Layout& layout_;
  Gradients& gradients_;
  PassInput input_;
  std::vector<MicroBatch> batches_;      // on the device
  std::vector<int64_t> backwards_left_;  // [micro-batch] until it can leave the device
  /// [block, micro-batch] Writes of weights' gradients that were put off.
  std::map<std::pair<int64_t, int64_t>, nn::DeferredWrites> put_off_;
  Bundles ins_, outs_;
  Bundles grads_;                                     // received, of outs
  std::set<std::pair<int64_t, int64_t>> recomputed_;  // (block, micro-batch)
  std::set<const nn::Param*> shared_;                 // parameters that several blocks read
  bool given_up_ = false;
};

/// Cuts the graph: tensors that carry a gradient become leaves.
nn::Bundle detached(const nn::Bundle& bundle);

/// Returns the tensor of that name; throws UsageError when the model's last block returned none.
const at::Tensor& required(const nn::Bundle& bundle, const char* name);

}  // namespace convoy::parallel
