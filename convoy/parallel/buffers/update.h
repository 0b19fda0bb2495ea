#pragma once

#include <atomic>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/parallel/buffers/flat_buffers.h"

namespace convoy::parallel {

class PassObserver;

/// Settings of a step's updates beside the learning rate; the optimizer is the flat buffers'.
struct OptimizerOptions {
  double weight_decay = 0;     ///< of the parameters that decay
  double max_grad_norm = 1.0;  ///< 0 = no clipping
};

/// Inputs of a step.
struct StepInput {
  uint64_t seed = 0;
  int64_t step = 0;  ///< optimizer steps done before this one
  double learning_rate = 0;
  int64_t updates = 0;    ///< optimizer updates done before this one: steps that were not skipped
  double loss_scale = 1;  ///< a power of two
  /// Signal that asks this process to stop, 0 while there is none; read late in the step.
  const std::atomic<int>* stop_signal = nullptr;
  /// Whether this process still does other work, such as writing a checkpoint; counted over all
  /// ranks
  bool writing_checkpoint = false;
  /// Whether a step in which a rank lacks the memory for its blocks ends on all ranks without
  /// update.
  bool may_give_up = false;
  PassObserver* observer = nullptr;
  bool check_replicas = false;  ///< compares ranks afterwards where they should hold equal values
  nn::StepIds step_ids = {};    ///< collected by the replica (nn::Block::collects_ids)
};

/// Results of a step, summed over all data-parallel ranks.
struct StepResult {
  double loss_sum = 0;
  double count = 0;               ///< valid targets
  std::vector<double> metrics{};  ///< sums over them, as nn::Block::metrics() names them
  double grad_norm = 0;           ///< of the mean loss, before clipping
  bool skipped = false;           ///< the gradient overflowed and no weight was changed
  double wait_seconds = 0;  ///< communication that computation did not hide, this rank; NaN on GPUs
  int num_writing = 0;      ///< ranks with StepInput::writing_checkpoint
  int short_rank = -1;      ///< the first that had too little memory: nothing was changed; -1: none
  int stop_signal = 0;      ///< a signal that asked any rank to stop, the same on all ranks

  double loss() const { return count > 0 ? loss_sum / count : 0; }
};

/// End of a step: totals over the ranks, the norm, clipping, the optimizer.
///
/// Each rank adds up the squares of its own elements, in double precision; their sum is rounded to
/// fp32. So the norm, and with it the clipping factor, is the same in every layout.
class Update {
 public:
  /// `may_overflow`: a gradient that is not finite skips the update (fp16). `num_metrics`: what the
  /// last block tells beside the loss.
  Update(FlatBuffers& flat, comm::Groups groups, bool may_overflow, int64_t num_metrics = 0);

  void begin_step(const StepInput& input, const OptimizerOptions& optimizer);
  /// Adds a micro-batch's loss and number of targets, scalars on the device.
  void add(const at::Tensor& loss, const at::Tensor& count);
  bool has_metrics() const { return num_metrics_ > 0; }
  /// Adds a micro-batch's metrics, [num_metrics] on the device.
  void add_metrics(const at::Tensor& metrics);
  /// Records that this rank has too little memory for the step.
  void give_up() { gave_up_ = true; }
  /// Adds the squares of the own part of a bucket, once it is summed up; in the buckets' order.
  void add_squares(int64_t bucket);
  /// Adds squares of gradients outside of the flat buffers, whose owner is this rank.
  void add_squares(const at::Tensor& squares);
  /// Completes this rank's totals, once its gradients are there: adds their squares, but for those
  /// that are offloaded.
  void close_totals();
  /// Starts summing over the ranks.
  void reduce_totals();
  /// Finds the norm and the scale, for which the host waits. False: the norm or a rank's loss is
  /// not finite, and should be.
  bool clip();
  /// Whether several buckets are updated at once: on a GPU, by few launches.
  bool collects() const;
  /// Adds a bucket to those that update_added() updates.
  void add_bucket(int64_t bucket);
  /// Updates the buckets that were added. Where nobody called clip() in this step before, it does
  /// that, if possible behind the launches: the GPU computes while the host waits. Returns what
  /// clip() returns; then nothing is updated.
  bool update_added();
  /// Returns the first rank whose loss is not finite, and should be; -1: none.
  int spoilt_loss() const { return spoilt_loss_; }
  /// Numbers for the step's updates, once there is a scale.
  optim::StepNumbers numbers() const;
  /// Weight decay of a table that is kept by rows.
  double weight_decay(int64_t row_unit) const;

  StepResult result{};

 private:
  void take_totals(const double* values);
  bool close_at_once(int told);
  bool decide(const at::Tensor& totals);
  bool can_update_before_clip(const std::vector<optim::FlatRange>& ranges) const;
  bool update_before_clip(const std::vector<optim::FlatRange>& ranges);
  std::vector<optim::FlatRange> ranges(int64_t bucket) const;
  int64_t metrics_begin() const;
  int64_t told_begin() const { return metrics_begin() + num_metrics_; }
  std::vector<optim::Span> spans(int64_t bucket, const Extent& extent) const;

  FlatBuffers& flat_;
  comm::Groups groups_;
  bool may_overflow_;
  int64_t num_metrics_;
  const StepInput* input_ = nullptr;
  const OptimizerOptions* optimizer_ = nullptr;
  /// Loss, targets, squares, busy ranks, and a word of each rank (see Word); then the step that
  /// each rank makes, the metrics, and what clip.cu tells. They stay on the device until the host
  /// reads them.
  at::Tensor totals_;
  comm::Group::Handle handle_;
  optim::StepNumbers numbers_ = {};  ///< since clip() found a scale
  bool decided_ = false;             ///< whether clip() did in this step
  std::vector<optim::FlatRange> added_;
  int spoilt_loss_ = -1;
  bool gave_up_ = false;
};

}  // namespace convoy::parallel
