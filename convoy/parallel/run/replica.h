#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "convoy/parallel/buffers/state.h"
#include "convoy/parallel/buffers/types.h"
#include "convoy/parallel/run/executor.h"
#include "convoy/parallel/run_plan/run_plan.h"

namespace convoy::parallel {

/// Layout of a run, and the settings of a replica of it.
struct ReplicaOptions {
  Parallelism parallelism;
  bool trains = true;  ///< else no gradients and no moments are held
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kFloat;  ///< bf16 and fp16 keep fp32 master weights
  uint64_t seed = 42;
  std::vector<BlockCounts> counts = {};  ///< see StepFacts
  optim::OptimizerPtr optimizer = optim::make_optimizer();
  /// Gives every parameter's elements that this rank owns their first value: reads what it has and
  /// has the rest drawn. Default: all are drawn.
  std::function<void(Replica&)> fill;

  /// Facts that follow from dtype and optimizer.
  StepFacts facts() const;
};

/// A whole model on one device, or this rank's stage or shards of it: blocks, flat buffers,
/// programs, executor.
class Replica {
 public:
  /// `shares_weights`: all replicas of the group are threads on one device and use the weights of
  /// `lender`, or are it (null).
  Replica(nn::BlockList blocks, comm::Groups groups, const ReplicaOptions& options,
          bool shares_weights = false, Replica* lender = nullptr);

  /// Gives the weights their first values, together with the other ranks. Throws UsageError, naming
  /// the parameter, unless all have rank 0's names and shapes.
  void start();

  StepResult step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer);
  /// Sets, from the next step on, the number of micro-batches, and of their rows at most. Throws
  /// UsageError where that would change the stages of a pipeline.
  void set_micro_batches(int64_t count, int64_t rows);
  /// Throws UsageError for predictions of a model with a table that is kept by rows.
  nn::Bundle forward(const MicroBatch& batch, nn::Mode mode);

  FlatBuffers& flat() { return flat_; }
  const comm::Groups& groups() const { return groups_; }
  /// Group of all ranks that hold the model together.
  const comm::Group& world() const { return groups_.world; }
  comm::Traffic traffic() const { return groups_.traffic(); }
  const Program& program() const { return stage().step; }
  at::ScalarType compute_dtype() const { return options_.compute_dtype; }
  const ReplicaOptions& options() const { return options_; }
  /// Memory by kind, without activations, which a replica does not know.
  MemoryUse memory() const;
  /// Bytes of the tables that are kept by rows: the part of memory() that no other replica has.
  int64_t row_bytes() const { return rows_.weight_bytes() + rows_.optimizer_bytes(); }
  /// Programs and layouts of all stages.
  const RunPlan& plan() const { return plan_; }
  /// Bytes of weights that a step gathers at a time, at most.
  int64_t most_gathered() const;

  /// Names of StepResult::metrics, on all ranks.
  std::vector<std::string> metrics() const { return blocks_.back()->metrics(); }

  /// Tensors without gradient that belong to the model's state.
  std::vector<nn::NamedTensor> buffers() const;

  /// Part of weights and buffers, or of the moments, that this rank has, to be read or written.
  State weights();
  State moments();
  /// Weights and buffers, or the moments, of which the ranks of a host write all among them.
  State weights_of_host(const HostShare& share);
  State moments_of_host(const HostShare& share);

  /// Draws the initial values of these parameters.
  void draw(const std::set<std::string>& names);

  /// Completes weights, buffers (rank 0's) and, if asked, moments, after each rank filled its part.
  void share(bool moments);

 private:
  const StagePlan& stage() const { return plan_.of(groups_.mesh); }
  void broadcast_leaves();
  void broadcast_buffers();
  void check_same_model() const;
  void gather_whole(Kind kind, const std::string& what);

  nn::BlockList blocks_;
  comm::Groups groups_;
  ReplicaOptions options_;
  RunPlan plan_;
  FlatBuffers flat_;
  RowTables rows_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace convoy::parallel
