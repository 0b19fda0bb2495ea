#pragma once

#include <atomic>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/nn/block.h"
#include "convoy/optim/adamw.h"
#include "convoy/parallel/arena.h"
#include "convoy/schedule/program.h"

namespace convoy::parallel {

/// The rows that one device computes at once. A short last batch may leave a device without any.
struct MicroBatch {
  nn::Bundle inputs;
  at::Tensor samples;  ///< [rows] int64 on the host: index of each row in the step's global batch
  nn::Bundle loaded;  ///< the inputs before they went to another device; empty while they are there

  bool empty() const { return !samples.defined() || samples.numel() == 0; }
};

struct OptimizerOptions {
  optim::AdamWOptions adamw;
  double max_grad_norm = 1.0;  ///< 0 = no clipping
};

/// What a step is given.
struct StepInput {
  uint64_t seed = 0;
  int64_t step = 0;  ///< optimizer steps done before this one
  double learning_rate = 0;
  int64_t updates = 0;    ///< optimizer updates done before this one: steps that were not skipped
  double loss_scale = 1;  ///< a power of two
  /// The signal that asks this process to stop, 0 while there is none; looked at late in the step.
  const std::atomic<int>* stop_signal = nullptr;
};

/// What a step yields, summed over all data-parallel ranks.
struct StepResult {
  double loss_sum = 0;
  double count = 0;         ///< valid targets
  double grad_norm = 0;     ///< of the mean loss, before clipping
  bool skipped = false;     ///< the gradient overflowed and no weight was changed
  double wait_seconds = 0;  ///< communication that computation did not hide, this rank; NaN on GPUs
  int stop_signal = 0;      ///< one that asked any rank to stop, the same on all ranks

  double loss() const { return count > 0 ? loss_sum / count : 0; }
};

/// The batch with its inputs on `device`.
MicroBatch to_device(MicroBatch batch, at::Device device);

/// Runs step programs on one replica. Blocks are cut apart: each block's inputs are detached and
/// the executor carries the gradients from block to block.
class Executor {
 public:
  /// `updates_weights`: false for replicas that share the weights of another one.
  Executor(nn::BlockList blocks, Arena& arena, comm::Group group, at::ScalarType compute_dtype,
           std::vector<std::vector<int64_t>> buckets, bool updates_weights);

  /// Throws NumericError naming step and rank when a loss or the norm is not finite, except in
  /// fp16: there the update is skipped.
  StepResult run(const schedule::Program& program, const std::vector<MicroBatch>& micro_batches,
                 const StepInput& input, const OptimizerOptions& optimizer);

  /// The last block's bundle, without autograd.
  nn::Bundle forward(const MicroBatch& batch, nn::Mode mode);

 private:
  struct Pass;  // what a step keeps between its instructions

  bool may_overflow() const { return compute_dtype_ == at::kHalf; }
  void prepare(Pass& pass, const schedule::Program& program) const;
  void execute(Pass& pass, const schedule::Instruction& instruction);
  void inject_fault(Pass& pass, const schedule::Instruction& instruction);
  /// Finds out on which ranks the gradient is not finite and throws.
  [[noreturn]] void fail_for_gradient(Pass& pass, const schedule::Program& program);
  void forward_block(Pass& pass, int64_t block, int64_t m);
  void recompute_block(Pass& pass, int64_t block, int64_t m);
  nn::Bundle run_block(const Pass& pass, int64_t block, int64_t m) const;
  /// Says where the gradients of the block's units go for this micro-batch.
  void bind_grads(Pass& pass, int64_t block, int64_t m);
  void backward_block(Pass& pass, int64_t block, int64_t m);
  void accumulate(Pass& pass, int64_t unit, int64_t m);
  void start_reduce(Pass& pass, int64_t bucket);
  template <class Work>
  void timed(Pass& pass, const Work& work) const;
  void reduce_loss(Pass& pass);
  void take_totals(Pass& pass, const double* values) const;
  void clip(Pass& pass);
  void optimizer_step(Pass& pass);

  nn::BlockList blocks_;
  Arena& arena_;
  comm::Group group_;
  at::ScalarType compute_dtype_;
  std::vector<std::vector<int64_t>> buckets_;
  bool updates_weights_;
};

}  // namespace convoy::parallel
