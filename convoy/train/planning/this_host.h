#pragma once

#include <filesystem>

#include "convoy/comm/group.h"
#include "convoy/plan/cluster.h"
#include "convoy/train/setup/arguments.h"
#include "convoy/train/setup/job.h"

namespace convoy::train {

/// What a sum over a group's ranks takes: by itself, and for each byte.
struct SumTimes {
  double seconds = 0, seconds_per_byte = 0;
};

/// What sums take over the ranks of a host, and over those of all hosts.
struct SumsOfHosts {
  int num_hosts = 1;
  SumTimes inside, all;
};

/// Measures it for a second, of tensors on `device`. All ranks of the group call this.
SumTimes time_sums(const comm::Group& group, at::Device device = at::kCPU);

/// The same of ranks that have met, on their devices. Collective.
SumsOfHosts time_sums(const Job& met, const MetRanks& ranks);

/// The same of ranks that are threads here.
SumsOfHosts time_sums_of_threads(int num_ranks);

/// Links of a cluster's hosts, of as many ranks as the host has devices.
void set_links(plan::Cluster& cluster, const SumsOfHosts& sums);

/// This host as so many ranks on its processor would find it, each with its share of the memory.
/// Nothing is measured.
plan::Cluster processors(int num_ranks);

/// Hosts like this one with so many ranks each.
plan::Cluster hosts_like_this(int ranks_per_host, const SumsOfHosts& sums);

/// What the disk of a folder reads and writes together in a second, where so many ranks bring and
/// store offloaded state at once. Throws FileError where it cannot.
double disk_bytes_per_second(const std::filesystem::path& folder, int num_ranks);

/// What the optimizer and the norm take for an element, where so many ranks work at once.
double seconds_of_update(const TrainingArguments& arguments, int num_ranks);

/// What it takes to add an element of a micro-batch's gradient to those of the ones before, where
/// so many ranks do it at once.
double seconds_of_accumulate(int num_ranks);

}  // namespace convoy::train
