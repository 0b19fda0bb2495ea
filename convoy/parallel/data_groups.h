#pragma once

#include <utility>

#include "convoy/comm/group.h"

namespace convoy::parallel {

/// Whom a rank works with: those that share the samples of a step, among whom of them the state is
/// shared out, and the stages of its pipeline.
struct DataGroups {
  comm::Group all;
  comm::Group shard;          ///< ranks that keep one copy of the state together
  comm::Group replicas;       ///< ranks with the same part, one of each copy
  comm::Group pipeline;       ///< ranks that hold the blocks together, by stage
  comm::Group pipeline_back;  ///< the same ranks: what goes to earlier stages
  /// Over NCCL: the same ranks, from host to host, for what describes a message; else one rank.
  comm::Group pipeline_heads;
  comm::Group world;  ///< all ranks of the job

  /// One copy for all.
  DataGroups(comm::Group ranks = {}) : all(std::move(ranks)), shard(all), world(all) {}
  DataGroups(comm::Group ranks, comm::Group of_shard, comm::Group of_replicas)
      : all(std::move(ranks)),
        shard(std::move(of_shard)),
        replicas(std::move(of_replicas)),
        world(all) {}

  /// Of the ranks with the same part one counts it.
  bool owns_part() const { return replicas.rank() == 0; }

  /// What this rank has said so far, to whomever.
  comm::Traffic traffic() const {
    return comm::Group::traffic_of(
        {all, shard, replicas, pipeline, pipeline_back, pipeline_heads, world});
  }
};

}  // namespace convoy::parallel
