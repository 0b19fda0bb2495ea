#pragma once

#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/connect.h"
#include "convoy/comm/mesh.h"
#include "convoy/comm/store.h"
#include "convoy/launch/environment.h"
#include "convoy/parallel/strategy.h"
#include "convoy/train/arguments.h"

namespace convoy::train {

/// How this process takes part in a run: which strategy, why, on which devices, with whom.
struct Job {
  launch::RankEnvironment environment;
  std::string strategy;               ///< single, dp, ddp or pipeline
  std::string reason;                 ///< why it was chosen
  std::string faster;                 ///< what would be faster, or ""
  std::vector<std::string> warnings;  ///< what a person may not have meant
  std::vector<at::Device> devices;    ///< of this process; more than one only with dp
  int threads = 1;                    ///< intra-op threads per rank
  comm::Mesh mesh;                    ///< the processes, by what they share
  comm::Group group;                  ///< all of them: loss, stopping, saving
  comm::Group data;                   ///< those that share the samples of a step
  int shard_ranks = 0;                ///< ranks that keep one copy of the state together; 0: all
  comm::Group shard;                  ///< those of this rank, where there are several copies
  comm::Group replicas;               ///< ranks with this one's part of the other copies
  comm::Group pipeline_back;          ///< over NCCL: a second group of a pipeline's stages
  comm::Group pipeline_heads;         ///< over NCCL: one from host to host
  /// Makes more groups, where there are several hosts.
  std::shared_ptr<const comm::Connector> connector;

  parallel::DataGroups data_groups() const {
    auto out =
        shard_ranks == 0 ? parallel::DataGroups(data) : parallel::DataGroups(data, shard, replicas);
    out.pipeline = mesh.group(comm::Axis::Pipeline);
    out.pipeline_back = pipeline_back.size() > 1 ? pipeline_back : out.pipeline;
    out.pipeline_heads = pipeline_heads;
    out.world = group;
    return out;
  }

  bool is_main() const { return environment.rank == 0; }
  /// Those that share out the data.
  int num_ranks() const { return strategy == "dp" ? num_devices() : data.size(); }
  int num_devices() const {
    return strategy == "dp" ? static_cast<int>(devices.size()) : group.size();
  }
};

/// Decides on a strategy without talking to anyone. More ranks or replicas than GPUs share them,
/// with a warning. Throws UsageError when the arguments, the launcher and the devices do not fit
/// together.
Job plan_job(const ParallelArguments& arguments, const launch::RankEnvironment& environment,
             const std::vector<at::Device>& visible_devices);

/// Where the processes of a planned job meet.
comm::MeetingPoint meeting_point(const Job& job, const ParallelArguments& arguments);

/// How many neighbouring ranks keep a copy of the state together: what `shard_ranks` says, 0 where
/// all do that share the data. Throws UsageError when that does not divide them.
int shard_size(const ParallelArguments& arguments, const launch::RankEnvironment& environment);

/// Throws UsageError where the ranks do not make pipelines of that many stages.
void check_pipeline(const ParallelArguments& arguments, const launch::RankEnvironment& environment);

/// With shard_ranks = host: throws UsageError unless the ranks of each copy share a host. `hosts`:
/// by rank.
void check_copies(int shard_ranks, const std::vector<std::string>& hosts);

/// plan_job() for this process, then meets the other ranks.
Job join_job(const ParallelArguments& arguments);

/// Devices that `choice` (auto, cpu, cuda) allows here, CUDA_VISIBLE_DEVICES respected. With auto
/// `why_no_gpu` tells why GPUs that are here are not used.
std::vector<at::Device> visible_devices(const std::string& choice,
                                        std::string* why_no_gpu = nullptr);

/// Lets torch see the GPUs: the first line of a program that uses torch before convoy. Once torch
/// was asked for CUDA (by torch::manual_seed, or a backward on the CPU) it is too late.
void open_devices();

}  // namespace convoy::train
