#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/folder_lock.h"
#include "convoy/comm/groups.h"
#include "convoy/comm/rendezvous.h"
#include "convoy/comm/store.h"
#include "convoy/launch/environment.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/strategy/strategy.h"

namespace convoy::job {

/// Role of this process in a run: strategy, the reason for it, devices and groups.
struct Job {
  launch::RankEnvironment environment;
  std::string strategy;  ///< single, dp, ddp, pipeline, tensor or context
  int stages = 1;        ///< of a pipeline whose stages are threads of this process
  std::string reason;    ///< reason for the choice
  std::string faster;    ///< a setting that would be faster, or ""
  std::optional<options::PlannedStep> planned;  ///< of a run that was planned
  std::vector<std::string> warnings;            ///< about settings that a person may not have meant
  std::vector<at::Device> devices;  ///< of this process; more than one only with threads
  int threads = 1;                  ///< intra-op threads per rank
  /// Restores the process's former number of threads, once no copy of the job is left.
  std::shared_ptr<void> own_threads;
  comm::Groups groups;  ///< the processes, by what they share
  /// Makes more groups, where there are several hosts.
  std::shared_ptr<const comm::Connector> connector;

  /// Group of all processes: for loss, stopping, saving.
  const comm::Group& world() const { return groups.world; }
  bool is_main() const { return environment.rank == 0; }
  /// Whether the ranks are threads of this process, a device each.
  bool in_threads() const { return strategy == "dp" || stages > 1; }
  /// Number of ranks that share out the data.
  int num_ranks() const { return in_threads() ? num_devices() / stages : groups.rows.size(); }
  int num_devices() const {
    return in_threads() ? static_cast<int>(devices.size()) : world().size();
  }
};

/// Whether a process that no launcher started runs the stages of a pipeline itself.
bool stages_are_threads(const options::ParallelArguments& arguments,
                        const launch::RankEnvironment& environment);

/// Decides on a strategy without any communication. More ranks, stages or replicas than GPUs share
/// them, with a warning. Throws UsageError when the arguments, the launcher and the devices do not
/// fit together.
Job plan_job(const options::ParallelArguments& arguments,
             const launch::RankEnvironment& environment,
             const std::vector<at::Device>& visible_devices);

/// Takes an output folder for this job alone; not held where there are no locks. Throws UsageError
/// where another run has it: a job that starts again waits, for a rank that was given up may still
/// have a moment to live.
FolderLock lock_output_folder(const std::filesystem::path& folder, const Job& job,
                              const options::ParallelArguments& arguments);

/// Address at which the processes of a planned job meet.
comm::StoreAddress store_address(const Job& job, const options::ParallelArguments& arguments);

/// Throws UsageError where ranks share out the positions of rows, since predictions need whole
/// rows.
void check_whole_rows(const options::ParallelArguments& arguments);

/// Mesh coordinates of this process in a job. Throws UsageError where the ranks do not make
/// pipelines of as many stages and tensor ranks, or `shard_ranks` does not divide the rest.
parallel::Mesh mesh_of(const options::ParallelArguments& arguments,
                       const launch::RankEnvironment& environment);

/// Throws UsageError unless the ranks of each state replica share a host; for shard_ranks = host.
/// `hosts`: by rank.
void check_state_replicas(const parallel::Mesh& mesh, const std::vector<std::string>& hosts);

/// Decision of the ranks with strategy = plan: how they share the work.
struct Decision {
  options::ParallelArguments parallel;
  options::PlannedStep planned;
};

/// Ranks that have met and formed no other groups yet.
struct MetRanks {
  comm::Group all;
  comm::Group host;  ///< the ranks of this rank's host
};

/// Makes the decision on all ranks, where they have met. `met` has no groups.
using Decide = std::function<Decision(const Job& met, const MetRanks& ranks)>;

/// plan_job() for this process, then meets the other ranks, which do some work together and form no
/// groups; `work_name` is for messages. Throws UsageError unless each host has as many ranks.
void meet_ranks(const options::ParallelArguments& arguments, const std::string& work_name,
                const std::function<void(const Job& met, const MetRanks& ranks)>& work);

/// Throws UsageError unless each host has as many ranks, which `what` needs.
void check_even_hosts(const launch::RankEnvironment& environment, const std::string& what);

/// plan_job() for this process, then meets the other ranks. Throws UsageError for strategy = plan
/// without `decide`.
Job join_job(const options::ParallelArguments& arguments, const Decide& decide = {});

/// Devices that `choice` (auto, cpu, cuda) allows here, CUDA_VISIBLE_DEVICES respected. With auto
/// `why_no_gpu` tells why GPUs that are here are not used.
std::vector<at::Device> visible_devices(const std::string& choice,
                                        std::string* why_no_gpu = nullptr);

}  // namespace convoy::job
