#pragma once

#include <utility>

#include "convoy/comm/group.h"

namespace convoy::parallel {

/// The ranks that share the samples of a step, and among whom of them the state is shared out.
struct DataGroups {
  comm::Group all;
  comm::Group shard;     ///< ranks that keep one copy of the state together
  comm::Group replicas;  ///< ranks with the same part, one of each copy

  /// One copy for all.
  DataGroups(comm::Group ranks = {}) : all(std::move(ranks)), shard(all) {}
  DataGroups(comm::Group ranks, comm::Group of_shard, comm::Group of_replicas)
      : all(std::move(ranks)), shard(std::move(of_shard)), replicas(std::move(of_replicas)) {}

  /// Of the ranks with the same part one counts and writes it.
  bool owns_part() const { return replicas.rank() == 0; }
};

}  // namespace convoy::parallel
