#pragma once

#include <filesystem>

#include "convoy/comm/group.h"
#include "convoy/job/job.h"
#include "convoy/options/arguments.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::planner {

/// Time of a sum over a group's ranks: a constant, and per byte.
struct SumTimes {
  double seconds = 0, seconds_per_byte = 0;
};

/// Times of sums over the ranks of a host, and over those of all hosts.
struct SumsOfHosts {
  int num_hosts = 1;
  SumTimes inside, all;
};

/// Measures sums of tensors on `device` for a second. All ranks of the group call this.
SumTimes time_sums(const comm::Group& group, at::Device device = at::kCPU);

/// Measures sums over ranks that have met, on their devices: those of a host and of all hosts.
/// Collective.
SumsOfHosts time_sums(const job::Job& met, const job::MetRanks& ranks);

/// Measures sums over `num_ranks` ranks that are threads of this process.
SumsOfHosts time_sums_of_threads(int num_ranks);

/// Sets the links of a cluster's hosts, each with as many ranks as devices.
void set_links(Cluster& cluster, const SumsOfHosts& sums);

/// Returns this host as a cluster of `num_ranks` ranks on its processor, each with its share of the
/// memory. Measures nothing.
Cluster processors(int num_ranks);

/// Hosts like this one with so many ranks each.
Cluster hosts_like_this(int ranks_per_host, const SumsOfHosts& sums);

/// Bytes a second that the disk of a folder reads and writes together, while so many ranks fetch
/// and store offloaded state at once. Throws FileError where it cannot.
double disk_bytes_per_second(const std::filesystem::path& folder, int num_ranks);

/// Seconds of optimizer and norm for an element, where so many ranks work at once.
double seconds_of_update(const options::TrainingArguments& arguments, int num_ranks);

/// Seconds to add an element of a micro-batch's gradient to those before, where so many ranks do it
/// at once.
double seconds_of_accumulate(int num_ranks);

}  // namespace convoy::planner
