#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "convoy/parallel/run/replica.h"

namespace convoy::parallel {

/// Spreads the work of a step over devices. A strategy owns the replicas of this process.
class Strategy {
 public:
  virtual ~Strategy() = default;

  /// Data-parallel ranks over all processes, and those that this process computes:
  /// [first_rank(), first_rank() + num_local_ranks()).
  virtual int num_ranks() const = 0;
  virtual int first_rank() const = 0;
  virtual int num_local_ranks() const = 0;

  /// micro-batches[local rank][micro-batch]. Returns totals over all ranks.
  virtual StepResult step(const std::vector<std::vector<MicroBatch>>& micro_batches,
                          const StepInput& input, const OptimizerOptions& optimizer) = 0;
  /// Sets the micro-batches of all replicas: see Replica::set_micro_batches().
  virtual void set_micro_batches(int64_t count, int64_t rows) = 0;
  /// Runs one batch per local rank; returns the last blocks' bundles.
  virtual std::vector<nn::Bundle> forward(const std::vector<MicroBatch>& batches,
                                          nn::Mode mode) = 0;

  /// Part of weights and buffers, or of the optimizer's moments, that this process has; the parts
  /// of all processes are the whole.
  virtual State weights() = 0;
  virtual State moments() = 0;
  /// Completes weights and buffers (and moments) after each process filled its part.
  virtual void share(bool moments) = 0;

  /// One of this process's replicas, and all of them.
  virtual Replica& replica() = 0;
  virtual std::vector<Replica*> replicas() = 0;
  /// Peak bytes of the host's tensors of one replica since the last call, above what it holds now.
  /// Call it while nothing is computed.
  virtual int64_t take_passing_bytes(int replica) = 0;
  /// Ranks in different processes; size 1 when this process is alone.
  virtual const comm::Group& processes() const = 0;
  /// Whether this process counts and reports its rows: one of the processes that compute the same
  /// rows does.
  bool tells_rows() { return replica().groups().tensor.rank() == 0; }
  /// Collectives and bytes so far of this process's rank, or within one process, of one of its
  /// ranks.
  virtual comm::Traffic traffic() const = 0;
};

/// One replica in this process: a single device, or one rank of DistributedDataParallel.
std::unique_ptr<Strategy> make_process_strategy(const ModelFactory& factory, comm::Groups groups,
                                                const ReplicaOptions& options);

/// A thread per device in one process: replicas of DataParallel, or of each stage of a pipeline, of
/// which stage 0 has the first devices. Replicas of the same blocks on the same device share
/// weights. Each thread uses `threads` intra-op threads, and waits for another no longer than
/// `timeout`. What a thread throws is thrown by the call; one that does not end although the others
/// wait for it is left behind, and named by a CommunicationError.
std::unique_ptr<Strategy> make_thread_strategy(const ModelFactory& factory,
                                               const std::vector<at::Device>& devices,
                                               const ReplicaOptions& options, int threads,
                                               std::chrono::milliseconds timeout, int stages = 1);

}  // namespace convoy::parallel
