#include "convoy/job/job.h"

#include <algorithm>
#include <cstdlib>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/cuda.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/gpus.h"

namespace convoy::job {

namespace {

int threads_per_rank(int64_t asked, int ranks_on_host, int replicas = 1) {
  if (asked > 0) return static_cast<int>(asked);
  int64_t from_environment = 0;
  const char* text = std::getenv("OMP_NUM_THREADS");
  if (text != nullptr && parse_number(text, from_environment) && from_environment > 0) {
    return static_cast<int>(from_environment);
  }
  return std::max(1, machine::cores_per_rank(ranks_on_host) / replicas);
}

std::string launch_hint(size_t ranks) {
  return fmt::format(
      "DistributedDataParallel, a process per device, is usually faster: convoy "
      "launch -n {} train ...",
      ranks);
}

/// Throws UsageError for DataParallel in several processes, as its replicas are models of one
/// process.
void check_one_process(const options::ParallelArguments& arguments) {
  const bool replicates = arguments.strategy == "dp" || arguments.replicas > 1;
  const int cuts = arguments.num_tensor_ranks(), contexts = arguments.num_context_ranks();
  const int experts = arguments.num_expert_ranks();
  if (cuts * contexts * experts == 1 || !replicates) return;
  fail<UsageError>("parallel",
                   "{}_parallel_size = {} needs a process for each rank, but {} is DataParallel "
                   "in one process; try --nproc {} without it",
                   cuts > 1       ? "tensor"
                   : contexts > 1 ? "context"
                                  : "expert",
                   cuts > 1       ? cuts
                   : contexts > 1 ? contexts
                                  : experts,
                   arguments.strategy == "dp" ? "strategy = dp"
                                              : fmt::format("replicas = {}", arguments.replicas),
                   cuts * contexts > 1
                       ? cuts * contexts * experts * std::max<int64_t>(2, arguments.replicas)
                       : std::max<int64_t>(experts, arguments.replicas));
}

std::string sharing(size_t number, const std::string& what, size_t gpus) {
  return fmt::format("{} {} share {} and take turns", number, what,
                     gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus));
}

/// Makes a pipeline of threads in one process: `replicas` of each stage, or as many as there are
/// GPUs for. Neighbouring stages share a device before others do.
Job pipeline_of_threads(Job job, const options::ParallelArguments& arguments,
                        const std::vector<at::Device>& visible) {
  const auto stages = static_cast<size_t>(arguments.num_stages());
  if (arguments.strategy == "single") {
    fail<UsageError>("parallel",
                     "strategy = single is one device, but pipeline_parallel_size = {}; try "
                     "strategy = auto",
                     stages);
  }
  const bool cuda = visible[0].is_cuda();
  size_t replicas = arguments.strategy == "dp" && !cuda ? 2 : 1;
  if (cuda) replicas = std::max<size_t>(1, visible.size() / stages);
  if (arguments.replicas > 0) replicas = static_cast<size_t>(arguments.replicas);
  const size_t count = stages * replicas, devices = visible.size();
  job.strategy = "pipeline";
  job.stages = static_cast<int>(stages);
  job.reason = fmt::format("{} stages as threads of one process", stages);
  if (replicas > 1) job.reason += fmt::format(", {} replicas of each", replicas);
  for (size_t r = 0; r < count; ++r) {
    job.devices.push_back(visible[count > devices ? r * devices / count : r]);
  }
  if (cuda && count > devices) {
    job.warnings.push_back(
        sharing(count, replicas == 1 ? "stages" : "replicas of stages", devices));
  }
  job.threads = threads_per_rank(arguments.threads, 1, static_cast<int>(count));
  return job;
}

/// Makes the job of one of several ranks.
Job job_of_rank(Job job, const options::ParallelArguments& arguments,
                const std::vector<at::Device>& visible) {
  const auto& environment = job.environment;
  const auto& wanted = arguments.strategy;
  const bool cuda = visible[0].is_cuda();
  const int world = environment.world_size;
  if (wanted == "dp" && environment.num_nodes > 1) {
    fail<UsageError>("parallel",
                     "strategy = dp works inside one process and cannot span {} "
                     "nodes; try strategy = ddp",
                     environment.num_nodes);
  }
  if (wanted == "dp" || wanted == "single") {
    fail<UsageError>("parallel",
                     "strategy = {} is one process, but {} started {} ranks; try "
                     "strategy = ddp, or start one process",
                     wanted, environment.source, world);
  }
  if (arguments.replicas > 1) {
    fail<UsageError>("parallel",
                     "replicas = {} is for DataParallel in one process, but {} "
                     "started {} ranks; try leaving one of the two out",
                     arguments.replicas, environment.source, world);
  }
  auto devices_here = static_cast<int>(visible.size());
  // A scheduler that binds one GPU to each task shows each rank only its own.
  const bool bound = devices_here == 1 && environment.source != "convoy launch" &&
                     std::getenv("CUDA_VISIBLE_DEVICES") != nullptr;
  if (cuda && environment.local_world_size > devices_here && !bound) {
    if (arguments.backend == "nccl") {
      fail<UsageError>("parallel",
                       "backend = nccl needs a GPU for each of the {} ranks on this host; got {} "
                       "visible; try -n {}, --device cpu, or --backend auto to share them",
                       environment.local_world_size, devices_here, devices_here);
    }
    job.warnings.push_back(
        sharing(static_cast<size_t>(environment.local_world_size), "ranks", visible.size()));
  }
  mesh_of(arguments, environment);
  job.strategy = arguments.num_stages() > 1          ? "pipeline"
                 : arguments.num_tensor_ranks() > 1  ? "tensor"
                 : arguments.num_context_ranks() > 1 ? "context"
                 : arguments.num_expert_ranks() > 1  ? "expert"
                                                     : "ddp";
  job.reason = fmt::format("{} started {} ranks{}", environment.source, world,
                           wanted == "plan" ? ", and a plan chooses the parallelism" : "");
  job.devices = {cuda ? visible[static_cast<size_t>(environment.local_rank % devices_here)]
                      : visible[0]};
  job.threads = threads_per_rank(arguments.threads, environment.local_world_size);
  return job;
}

/// Makes the job of a single process.
Job job_of_process(Job job, const options::ParallelArguments& arguments,
                   const std::vector<at::Device>& visible) {
  const auto& environment = job.environment;
  const auto& wanted = arguments.strategy;
  const bool cuda = visible[0].is_cuda();
  if (arguments.backend != "auto" && !environment.launched()) {
    fail<UsageError>("parallel",
                     "backend = {} has no effect in one process; try convoy launch -n 2 train ..., "
                     "or --backend auto",
                     arguments.backend);
  }
  if (wanted == "ddp" && !environment.launched()) {
    fail<UsageError>("parallel",
                     "strategy = ddp needs a process per device; got one process; try "
                     "convoy launch -n 2 train ..., or convoy train --nproc 2");
  }
  if (wanted == "single" && arguments.replicas > 1) {
    fail<UsageError>("parallel",
                     "strategy = single is one device, but replicas = {}; try strategy = dp",
                     arguments.replicas);
  }
  if (stages_are_threads(arguments, environment)) {
    return pipeline_of_threads(std::move(job), arguments, visible);
  }
  check_one_process(arguments);
  mesh_of(arguments, environment);
  const size_t asked = static_cast<size_t>(arguments.replicas);
  const size_t replicas = asked > 0 || !cuda ? asked : visible.size();
  const bool several = replicas > 1;
  const auto who = environment.launched() ? fmt::format("{} started one rank", environment.source)
                                          : "no launcher set ranks";
  if (wanted == "dp" || (wanted == "auto" && several)) {
    const size_t count = asked > 0 ? asked : cuda ? visible.size() : 2;
    job.strategy = "dp";
    job.reason = wanted == "dp" ? "strategy = dp was asked for"
                 : asked == 0   ? fmt::format("{} GPUs are visible and {}", visible.size(), who)
                                : fmt::format("replicas = {} was asked for", count);
    job.faster = launch_hint(count);
    for (size_t r = 0; r < count; ++r) job.devices.push_back(visible[r % visible.size()]);
    if (cuda && count > visible.size()) {
      job.warnings.push_back(sharing(count, "replicas", visible.size()));
    }
  } else {
    job.strategy = wanted == "ddp" ? "ddp" : "single";
    job.reason = wanted == "auto" ? "one device is visible and " + who
                                  : fmt::format("strategy = {} was asked for", wanted);
    job.devices = {visible[0]};
    if (several) job.faster = launch_hint(replicas);
  }
  job.threads = threads_per_rank(arguments.threads, 1, static_cast<int>(job.devices.size()));
  return job;
}

}  // namespace

bool stages_are_threads(const options::ParallelArguments& arguments,
                        const launch::RankEnvironment& environment) {
  const int64_t together = arguments.ranks_of_rows() * arguments.num_expert_ranks();
  return arguments.num_stages() > 1 && arguments.num_stages() == together &&
         !environment.launched() && !arguments.one_process_each;
}

Job plan_job(const options::ParallelArguments& arguments,
             const launch::RankEnvironment& environment, const std::vector<at::Device>& visible) {
  Job job;
  job.environment = environment;
  internal_check(!visible.empty(), "parallel", "there is no device");
  if (environment.world_size > 1) return job_of_rank(std::move(job), arguments, visible);
  return job_of_process(std::move(job), arguments, visible);
}

std::vector<at::Device> visible_devices(const std::string& choice, std::string* why_no_gpu) {
  if (choice == "cpu") return {at::kCPU};
  std::string why = "there is no GPU here, or CUDA_VISIBLE_DEVICES hides it";
  if (machine::visible_gpus() > 0) {
    const auto& cuda = comm::open_cuda();
    std::vector<at::Device> devices;
    for (int i = 0; i < cuda.num_devices; ++i) {
      devices.emplace_back(at::kCUDA, static_cast<at::DeviceIndex>(i));
    }
    if (!devices.empty()) return devices;
    why = cuda.why_none;
    if (why_no_gpu != nullptr) *why_no_gpu = why;
  }
  if (choice == "cuda") {
    fail<UsageError>("parallel", "device = cuda was asked for, but {}; try --device cpu", why);
  }
  return {at::kCPU};
}

}  // namespace convoy::job
