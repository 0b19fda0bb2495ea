#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/parallel/buffers/flat_buffers.h"
#include "convoy/parallel/program/memory.h"
#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Gradients of a step: the memory of each micro-batch's, and the sums over the ranks.
///
/// Where gradients are whole, a unit's gradient of the first micro-batch is written into the flat
/// buffers. Those of later micro-batches go into scratch memory and are added; on a GPU they are
/// added in place, where each parameter's comes at once and no other micro-batch is under way.
/// Where gradients are sharded, a bucket has memory from its first contribution until it is
/// reduced. Micro-batches may take turns: each finds again what it wrote.
class Gradients {
 public:
  /// `reduce_each`: sharded gradients are reduced after every micro-batch.
  Gradients(FlatBuffers& flat, comm::Groups groups, bool reduce_each);

  void begin_step();
  /// Sets where the gradient of `unit` goes for this micro-batch, until another is named.
  void bind(int64_t unit, int64_t micro_batch);
  /// Completes the unit's gradient of this micro-batch.
  void accumulate(int64_t unit, int64_t micro_batch);
  /// Sums the partial gradients in the unit over the tensor ranks, before its bucket is reduced.
  void reduce_tensor(int64_t unit);
  /// Starts summing a bucket over the ranks: all of it, or this rank's part.
  void reduce(int64_t bucket);
  void reduce_scatter(int64_t bucket, int64_t micro_batch);
  /// Sums this rank's part of a unit's reduced gradient over the stages that hold the unit.
  void reduce_tied(int64_t unit);
  /// Whether this rank's own gradient is finite; called in place of the sum.
  bool finite(int64_t bucket);
  /// Waits for the sums under way, that of an offloaded bucket among them; the `last` micro-batch's
  /// is summed up over the state replicas.
  void complete(int64_t bucket, bool last);
  /// Waits for the sums under way, and sums up over the state replicas.
  void wait();

  /// Elements of the buckets that are whole for a while.
  int64_t num_pooled() const { return pool_.num_elements() + scratch_pool_.num_elements(); }

 private:
  struct InFlight {
    comm::Group::Handle handle;
    at::Tensor memory;  // of the pool, or undefined
  };

  bool is_sharded() const { return flat_.layout().is_sharded(Kind::Gradients); }
  /// A micro-batch's gradient of a unit, once it is bound.
  struct Bound {
    at::Tensor scratch;              // undefined: its place
    std::vector<bool> written = {};  // by slot, while another micro-batch is bound
    bool adds = false;               // to what earlier micro-batches left in its place
  };

  bool is_in_place(int64_t unit, int64_t micro_batch) const;
  bool adds_in_place(int64_t unit) const;
  at::Tensor whole(int64_t bucket);
  at::Tensor place_of(int64_t unit);
  void complete();
  bool offloaded() const { return flat_.layout().offloaded(Kind::Gradients); }
  bool of_experts(int64_t bucket) const { return flat_.layout().of_experts(bucket); }
  comm::Group::Handle sum_over_replicas(int64_t bucket);
  void drop(int64_t bucket);

  FlatBuffers& flat_;
  comm::Groups groups_;
  bool reduce_each_;
  Pool pool_, scratch_pool_;
  std::vector<at::Tensor> buckets_;              // [bucket] memory while it is not reduced
  std::vector<int64_t> filling_;                 // [bucket] micro-batch it has memory for
  std::vector<std::map<int64_t, Bound>> begun_;  // [unit][micro-batch], until accumulated
  std::vector<int64_t> bound_;                   // [unit] micro-batch its gradient is bound to
  std::vector<bool> has_sum_;                    // [unit] a micro-batch of this step is finished
  std::deque<InFlight> in_flight_;
};

}  // namespace convoy::parallel
