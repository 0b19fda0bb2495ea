#pragma once

#include <vector>

#include "convoy/nn/block.h"
#include "convoy/parallel/arena.h"
#include "convoy/parallel/gradients.h"
#include "convoy/parallel/update.h"
#include "convoy/schedule/program.h"

namespace convoy::parallel {

/// The rows that one device computes at once. A short last batch may leave a device without any.
struct MicroBatch {
  nn::Bundle inputs;
  at::Tensor samples;  ///< [rows] int64 on the host: index of each row in the step's global batch
  nn::Bundle loaded;  ///< the inputs before they went to another device; empty while they are there
  std::shared_ptr<nn::KvCache> cache;  ///< for prediction: of the positions before

  bool empty() const { return !samples.defined() || samples.numel() == 0; }
};

/// The batch with its inputs on `device`.
MicroBatch to_device(MicroBatch batch, at::Device device);

/// Runs programs on one replica. Blocks are cut apart: each block's inputs are detached and the
/// executor carries the gradients from block to block.
class Executor {
 public:
  Executor(nn::BlockList blocks, Arena& arena, DataGroups groups, at::ScalarType compute_dtype,
           const schedule::StepOptions& options);

  /// Runs a step. Throws NumericError naming step and rank when a loss or the norm is not finite,
  /// except in fp16: there the update is skipped.
  StepResult run(const schedule::Program& program, const std::vector<MicroBatch>& micro_batches,
                 const StepInput& input, const OptimizerOptions& optimizer);

  /// Runs a forward program: the last block's bundle, without autograd. A rank without rows takes
  /// part in the gathers.
  nn::Bundle forward(const schedule::Program& program, const MicroBatch& batch, nn::Mode mode);

  /// Waits for gathers of a step before: nobody reads or writes weights while one is under way.
  void settle();

  /// Elements of gradients and weights that are whole for a while.
  int64_t num_pooled_gradients() const { return gradients_.num_pooled(); }

 private:
  struct Pass;  // what a run keeps between its instructions

  void prepare(Pass& pass, const schedule::Program& program) const;
  void execute(Pass& pass, const schedule::Instruction& instruction);
  void inject_fault(Pass& pass, const schedule::Instruction& instruction);
  /// Finds out on which ranks the gradient is not finite and throws.
  [[noreturn]] void fail_for_gradient(Pass& pass, const schedule::Program& program);
  void take_loss(Pass& pass, int64_t m);
  void gather(Pass& pass, int64_t bucket);
  void store(Pass& pass, const schedule::Instruction& instruction);
  /// Frees the memory of what is read only.
  void drop_offloaded(schedule::Kind kind, int64_t bucket);
  /// Waits for the weights that an instruction reads.
  void await_weights(Pass& pass, const schedule::Instruction& instruction);
  void forward_block(Pass& pass, int64_t block, int64_t m);
  nn::Bundle run_block(const Pass& pass, int64_t block, int64_t m) const;
  void bind_grads(int64_t block, int64_t m);
  void backward_block(Pass& pass, int64_t block, int64_t m);
  template <class Work>
  void timed(Pass& pass, const Work& work) const;

  nn::BlockList blocks_;
  Arena& arena_;
  DataGroups groups_;
  at::ScalarType compute_dtype_;
  Gradients gradients_;
  Update update_;
  std::vector<comm::Group::Handle> gathers_;  // [bucket] under way, also from step to step
};

}  // namespace convoy::parallel
