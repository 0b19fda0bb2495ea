#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "convoy/parallel/executor.h"
#include "convoy/parallel/stages.h"
#include "convoy/parallel/state.h"

namespace convoy::parallel {

/// Makes a model's blocks; called once per replica.
using ModelFactory = std::function<nn::BlockList()>;

class Replica;

struct ReplicaOptions {
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kFloat;  ///< bf16 and fp16 keep fp32 master weights
  int64_t num_micro_batches = 1;
  int64_t bucket_bytes = 25 << 20;
  int64_t keep_bytes = 0;  ///< buckets below it keep whole weights (stage 3)
  uint64_t seed = 42;
  bool trains = true;      ///< else no gradients and no moments are held
  bool recompute = false;  ///< blocks keep their inputs only, and run again before their backward
  int zero = 0;            ///< stage of ZeRO: what each rank keeps a slice of only
  int64_t prefetch = 1;    ///< buckets of weights that are gathered ahead (stage 3)
  bool reshard_after_forward = true;  ///< else gathered weights stay until backward (stage 3)
  bool reduce_each = true;  ///< gradients in slices: reduce every micro-batch, not the last only
  OffloadOptions offload = {};
  PipelineOptions pipeline = {};  ///< where the groups have several stages
  /// Gives every parameter's elements that this rank owns their first value: reads what it has and
  /// has the rest drawn. Default: all are drawn.
  std::function<void(Replica&)> fill;
};

/// Where a rank stands among those that share out the state, and in its pipeline.
struct RankPlace {
  int part = 0, num_parts = 1;
  int stage = 0, num_stages = 1;
};

/// `shares_weights`: with the other replicas of its process.
ArenaOptions arena_options(const nn::BlockList& blocks, const ReplicaOptions& options,
                           const RankPlace& place, bool shares_weights = false);
/// What a replica there keeps, before it has any memory.
schedule::Layout layout_of(const nn::BlockList& blocks, ReplicaOptions options,
                           const RankPlace& place);
/// Throws UsageError where gradient_checkpointing finds nothing to run again.
schedule::StepOptions step_options(const nn::BlockList& blocks, const ReplicaOptions& options);

/// What a rank holds, in bytes.
struct MemoryUse {
  int64_t parameters = 0;  ///< compute weights and fp32 masters
  int64_t gradients = 0;
  int64_t optimizer = 0;
  int64_t gathered = 0;     ///< weights and gradients that are whole for a while
  int64_t activations = 0;  ///< what tensors take beside all others here, at their most
  int64_t buffers = 0;      ///< the model's, and those through which offloaded state comes and goes
  int64_t offloaded = 0;    ///< not in the device's memory

  int64_t sum() const {
    return parameters + gradients + optimizer + gathered + activations + buffers;
  }
};

/// A whole model on one device, or this rank's stage or slices of it: blocks, arena, programs,
/// executor.
class Replica {
 public:
  /// `shares_weights`: all replicas of the group are threads on one device and use the weights of
  /// `lender`, or are it (null).
  Replica(nn::BlockList blocks, DataGroups groups, const ReplicaOptions& options,
          bool shares_weights = false, Replica* lender = nullptr);

  /// Gives the weights their first values, together with the other ranks. Throws UsageError, naming
  /// the parameter, unless all have rank 0's names and shapes.
  void start();

  StepResult step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer);
  nn::Bundle forward(const MicroBatch& batch, nn::Mode mode) {
    return executor_->forward(forward_program_, batch, mode);
  }

  Arena& arena() { return arena_; }
  /// Those that share the samples of a step: of a pipeline, one stage's.
  const comm::Group& group() const { return groups_.all; }
  /// All that hold the model together.
  const comm::Group& world() const { return groups_.world; }
  comm::Traffic traffic() const { return groups_.traffic(); }
  const schedule::Program& program() const { return program_; }
  at::ScalarType compute_dtype() const { return options_.compute_dtype; }
  /// But for activations, which a replica does not know.
  MemoryUse memory() const;
  /// A step as it would go if what blocks cost were all; empty without a pipeline.
  const schedule::Timeline& timeline() const { return timeline_; }
  /// The most bytes of weights that a step gathers at a time.
  int64_t most_gathered() const;

  /// Tensors without gradient that belong to the model's state.
  std::vector<nn::NamedTensor> buffers() const;

  /// What this rank keeps of weights and buffers, or of the moments, to be read or written.
  State weights();
  State moments();

  /// Draws the initial values of these parameters.
  void draw(const std::set<std::string>& names);

  /// Completes what each rank filled its part of: weights, buffers (rank 0's), and moments too.
  void share(bool moments);

 private:
  void broadcast_leaves();
  void broadcast_buffers();
  void check_same_model() const;
  void gather_whole(schedule::Kind kind, const std::string& what);

  nn::BlockList blocks_;
  DataGroups groups_;
  ReplicaOptions options_;
  Arena arena_;
  schedule::Program program_, forward_program_;
  schedule::Alive alive_;  // at most in a step
  schedule::Timeline timeline_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace convoy::parallel
