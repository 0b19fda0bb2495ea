#pragma once

#include <filesystem>

#include "convoy/comm/group.h"
#include "convoy/plan/cluster.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// What a sum over a group's ranks takes: by itself, and for each byte.
struct SumTimes {
  double seconds = 0, seconds_per_byte = 0;
};

/// Measures it for a second, of tensors on `device`. All ranks of the group call this.
SumTimes time_sums(const comm::Group& group, at::Device device = at::kCPU);

/// The link of a host's ranks, of which sums take so long.
plan::Link link_of(const SumTimes& sums, int num_ranks);

/// That of a host to others, where sums over the cluster's ranks take so long: what the part inside
/// of the hosts leaves.
plan::Link link_between(const plan::Cluster& cluster, const SumTimes& sums);

/// The same of ranks that are threads here.
SumTimes time_sums_of_threads(int num_ranks);

/// This host as so many ranks on its processor would find it, each with its share of the memory.
/// Nothing is measured.
plan::Cluster processors(int num_ranks);

/// The same, and measures for some seconds what sums over the ranks take.
plan::Cluster this_host(int num_ranks);

/// So many hosts like this one with `num_ranks` ranks each, whose sums over all ranks take `sums`.
plan::Cluster hosts_like_this(int num_hosts, int num_ranks, const SumTimes& sums);

/// What the disk of a folder reads and writes together in a second, where so many ranks bring and
/// store offloaded state at once. Throws FileError where it cannot.
double disk_bytes_per_second(const std::filesystem::path& folder, int num_ranks);

/// What the optimizer and the norm take for an element, where so many ranks work at once.
double seconds_of_update(const TrainingArguments& arguments, int num_ranks);

}  // namespace convoy::train
