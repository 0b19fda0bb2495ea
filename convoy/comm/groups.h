#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/comm/group.h"
#include "convoy/parallel/mesh.h"

namespace convoy::comm {

/// Makes the group of some ranks of the job, in ascending order; each of them calls it.
using Connect = std::function<Group(const std::vector<int>& ranks, const std::string& name)>;

/// Groups with which a rank communicates, by what their ranks share. A small value, copied freely.
/// Groups with the same ranks are one Group; a Group of one rank does nothing.
struct Groups {
  parallel::Mesh mesh;
  Group world;      ///< all ranks of the job
  Group rows;       ///< ranks that the rows of a batch are dealt over
  Group gradients;  ///< ranks that share the samples of a step: gradients are summed over them
  Group shard;      ///< ranks that keep one state replica together
  Group replicas;   ///< ranks with the same part, one of each state replica
  Group experts;    ///< ranks that share out the experts of each layer
  Group expert_gradients;  ///< ranks of `gradients` with the same experts
  Group expert_shard;      ///< ranks of `shard` with the same experts
  Group context, tensor;
  Group pipeline;       ///< ranks that hold the blocks together, by stage
  Group pipeline_back;  ///< the ranks of `pipeline`: for messages to earlier stages
  /// Group of the pipeline's ranks over hosts, for the heads of messages, over NCCL; else one rank.
  Group pipeline_heads;

  Groups() = default;
  /// Data parallelism alone: all ranks of `data` keep one state replica.
  Groups(const Group& data);  // NOLINT: a group says it all
  /// Makes all groups that `mesh` names, in one order on all ranks. Over NCCL a pipeline gets a
  /// second group for its other direction, and one from host to host by `connect_hosts`.
  Groups(const parallel::Mesh& mesh, const Connect& connect, const Connect& connect_hosts = {});

  /// Ranks that sum gradients, of experts or of what is beside them.
  const Group& gradients_of(bool experts) const { return experts ? expert_gradients : gradients; }
  /// Ranks that keep one replica of the state, of experts or of what is beside them.
  const Group& shard_of(bool experts) const { return experts ? expert_shard : shard; }
  /// Whether this rank counts its part: one of the ranks with the same part does.
  bool owns_part() const { return replicas.rank() == 0; }
  /// Makes every wait in them fail with `reason`.
  void abort(const std::string& reason) const;
  /// Traffic of this rank so far, over all groups.
  Traffic traffic() const;

 private:
  std::vector<Group> all() const;
};

}  // namespace convoy::comm
