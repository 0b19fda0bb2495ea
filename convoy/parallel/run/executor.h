#pragma once

#include <memory>
#include <vector>

#include "convoy/parallel/row_tables/torch/row_tables.h"
#include "convoy/parallel/run/observer.h"
#include "convoy/parallel/run/pass.h"

namespace convoy::parallel {

/// Runs programs on one replica, or on one stage of it. All stages of a pipeline are given the same
/// rows.
class Executor {
 public:
  /// `blocks`: of the whole model; those that the flat buffers' layout holds are run.
  Executor(nn::BlockList blocks, FlatBuffers& flat, RowTables& rows, comm::Groups groups,
           at::ScalarType compute_dtype, const StepOptions& options);

  /// Runs a step. Throws NumericError naming step and rank when a loss or the norm is not finite,
  /// except in fp16: there the update is skipped. Where the input allows it and a rank has too
  /// little memory for its blocks, that goes on without rows, so that nobody waits for it in vain,
  /// and none is updated.
  StepResult run(const Program& program, const std::vector<MicroBatch>& micro_batches,
                 const StepInput& input, const OptimizerOptions& optimizer);

  /// Runs a forward program: the last block's bundle, without autograd; empty on other stages than
  /// the last. A rank without rows takes part in the gathers.
  nn::Bundle forward(const Program& program, const MicroBatch& batch, nn::Mode mode);

  /// Waits for gathers of a step before: nobody reads or writes weights while one is under way.
  void settle() { gathers_.settle(); }

  /// Elements of gradients that are whole for a while.
  int64_t num_pooled_gradients() const { return gradients_.num_pooled(); }

 private:
  Pass make_pass(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                 nn::Mode mode, const Program& program);
  /// Calls `run` for an instruction, and the observers around it.
  template <class Run>
  void observed(const Instruction& instruction, const Run& run);
  bool can_give_up(const Instruction& instruction, const StepInput& input) const;
  void execute(Pass& pass, const Instruction& instruction);
  void execute_on_rows(Pass& pass, const Instruction& instruction);
  /// Runs the step once more up to its sums over ranks, which are left out; calls `look` after each
  /// instruction.
  template <class Look>
  void run_again(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                 const Program& program, const Look& look);
  /// Finds the ranks on which the loss or the gradient is not finite, and throws NumericError on
  /// all ranks.
  [[noreturn]] void fail_for_loss(const std::vector<MicroBatch>& micro_batches,
                                  const StepInput& input, const Program& program);
  [[noreturn]] void fail_for_gradient(const std::vector<MicroBatch>& micro_batches,
                                      const StepInput& input, const Program& program);
  void take_loss(Pass& pass, int64_t m);
  void store(const Pass& pass, const Instruction& instruction);
  template <class Work>
  void timed(const Work& work);
  template <class Work>
  void in_layers(bool backward, const Work& work);

  nn::BlockList blocks_;
  FlatBuffers& flat_;
  RowTables& rows_;
  comm::Groups groups_;
  at::ScalarType compute_dtype_;
  Gradients gradients_;
  Gathers gathers_;
  P2PCommunication p2p_;
  Update update_;
  comm::Group layers_, context_, experts_;  // tensor, context and expert ranks, as layers see them
  std::vector<std::unique_ptr<Observer>> observers_;
  double wait_seconds_ = 0;      // of the step, in communication
  bool overflowed_ = false;      // the norm or a loss is not finite
  bool update_follows_ = false;  // the next instruction is an update, too
  bool in_backward_ = false;
};

}  // namespace convoy::parallel
