#pragma once

#include <optional>

#include "convoy/parallel/mesh.h"

namespace convoy::parallel {

/// Number of one of several ranks, and how many they are.
struct Turn {
  int number = 0;
  int of = 1;
};

/// Share of a rank in what the ranks of its host write, who have all of the state among them.
struct HostShare {
  bool first = true;  ///< of the host's ranks: it has the buffers
  Turn whole;         ///< among the host's ranks that keep the same buckets whole
  Turn experts;       ///< among those of them that also have the same experts
  Turn part;          ///< among those that keep the same part of a bucket
};

/// Share of the rank of `mesh`, of a host with the ranks [first_rank, first_rank + num_ranks).
/// `sharded`: each rank keeps a part of some state only (ZeRO). Nothing where the host lacks some.
std::optional<HostShare> host_share(const Mesh& mesh, int first_rank, int num_ranks, bool sharded);

}  // namespace convoy::parallel
