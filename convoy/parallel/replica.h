#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "convoy/parallel/executor.h"

namespace convoy::parallel {

/// Makes a model's blocks; called once per replica.
using ModelFactory = std::function<nn::BlockList()>;

class Replica;

struct ReplicaOptions {
  at::Device device = at::kCPU;
  at::ScalarType compute_dtype = at::kFloat;  ///< bf16 and fp16 keep fp32 master weights
  int64_t num_micro_batches = 1;
  int64_t bucket_bytes = 25 << 20;
  uint64_t seed = 42;
  bool trains = true;      ///< else no gradients and no moments are held
  bool recompute = false;  ///< blocks keep their inputs only, and run again before their backward
  /// Gives every parameter its first value, on rank 0 of the group: reads what it has and has the
  /// rest drawn. Default: all are drawn.
  std::function<void(Replica&)> fill;
};

/// A whole model on one device: blocks, arena, step program, executor.
class Replica {
 public:
  /// `share_weights_with`: a replica on the same device whose weights this one uses.
  Replica(nn::BlockList blocks, comm::Group group, const ReplicaOptions& options,
          Replica* share_weights_with = nullptr);

  StepResult step(const std::vector<MicroBatch>& micro_batches, const StepInput& input,
                  const OptimizerOptions& optimizer);
  nn::Bundle forward(const MicroBatch& batch, nn::Mode mode) {
    return executor_->forward(to_device(batch, options_.device), mode);
  }

  Arena& arena() { return arena_; }
  const comm::Group& group() const { return group_; }
  const schedule::Program& program() const { return program_; }
  size_t num_buckets() const { return buckets_.size(); }

  /// Tensors without gradient that belong to the model's state.
  std::vector<nn::NamedTensor> buffers() const;

  /// Draws the initial values of these parameters.
  void draw(const std::set<std::string>& names);

  /// Throws UsageError, naming the parameter, unless all ranks have rank 0's names and shapes.
  void check_same_model() const;
  /// Gives all ranks rank 0's weights and buffers.
  void broadcast_model();
  /// Gives all ranks rank 0's optimizer moments.
  void broadcast_moments();

 private:
  void broadcast_buffers();
  std::set<int64_t> recomputed_blocks() const;

  nn::BlockList blocks_;
  comm::Group group_;
  ReplicaOptions options_;
  Arena arena_;
  std::vector<std::vector<int64_t>> buckets_;
  schedule::Program program_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace convoy::parallel
