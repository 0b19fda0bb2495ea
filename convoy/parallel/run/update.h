#pragma once

#include <atomic>

#include "convoy/comm/groups.h"
#include "convoy/parallel/run/flat_buffers.h"

namespace convoy::parallel {

/// What a step is updated with beside the learning rate; the optimizer is the flat buffers'.
struct OptimizerOptions {
  double weight_decay = 0;     ///< of what decays
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
  bool busy = false;  ///< this process does something else beside, of which all want to know
  /// Where a rank has not the memory for its blocks the step ends on all ranks without an update.
  bool may_give_up = false;
  bool check_replicas = false;  ///< looks afterwards whether ranks have the same where they should
};

/// What a step yields, summed over all data-parallel ranks.
struct StepResult {
  double loss_sum = 0;
  double count = 0;         ///< valid targets
  double grad_norm = 0;     ///< of the mean loss, before clipping
  bool skipped = false;     ///< the gradient overflowed and no weight was changed
  double wait_seconds = 0;  ///< communication that computation did not hide, this rank; NaN on GPUs
  int num_busy = 0;         ///< ranks that said so
  int short_rank = -1;      ///< the first that had too little memory: nothing was changed; -1: none
  int stop_signal = 0;      ///< one that asked any rank to stop, the same on all ranks

  double loss() const { return count > 0 ? loss_sum / count : 0; }
};

/// The end of a step: totals over the ranks, the norm, clipping, the optimizer.
///
/// Each rank adds up the squares of what it owns, in double precision; their sum is rounded to
/// fp32. So the norm, and with it the clipping factor, is the same in every layout.
class Update {
 public:
  /// `may_overflow`: a gradient that is not finite skips the update (fp16).
  Update(FlatBuffers& flat, comm::Groups groups, bool may_overflow);

  void begin_step(const StepInput& input, const OptimizerOptions& optimizer);
  /// Adds a micro-batch's loss and number of targets, scalars on the device.
  void add(const at::Tensor& loss, const at::Tensor& count);
  /// This rank has too little memory for the step.
  void give_up() { gave_up_ = true; }
  /// Adds the squares of the own part of a bucket, once it is summed up; in the buckets' order.
  void add_squares(int64_t bucket);
  /// Adds squares of gradients that lie elsewhere, of which this rank is the owner.
  void add_squares(const at::Tensor& squares);
  /// Adds what this rank has to tell, once its gradients are there: their squares among it, of
  /// those that are not offloaded.
  void close_totals();
  /// Starts summing over the ranks.
  void reduce_totals();
  /// Finds the norm and the scale. False: the norm or a rank's loss is not finite, and should be.
  bool clip();
  /// The first rank whose loss is not finite, and should be; -1: none.
  int spoilt_loss() const { return spoilt_loss_; }
  void update(int64_t bucket);
  /// What the step's updates are given, once there is a scale.
  optim::StepNumbers numbers() const;
  /// Of a table that is kept by rows.
  double weight_decay(int64_t row_unit) const;

  StepResult result{};

 private:
  void take_totals(const double* values);
  std::vector<optim::Span> spans(int64_t bucket, const schedule::Extent& extent) const;

  FlatBuffers& flat_;
  comm::Groups groups_;
  bool may_overflow_;
  const StepInput* input_ = nullptr;
  const OptimizerOptions* optimizer_ = nullptr;
  /// Loss, targets, squares, busy ranks, and a word of each rank (see Word); then the step that
  /// each rank makes. They stay on the device until clip() reads them.
  at::Tensor totals_;
  comm::Group::Handle handle_;
  double divisor_ = 1;
  int spoilt_loss_ = -1;
  bool gave_up_ = false;
};

}  // namespace convoy::parallel
