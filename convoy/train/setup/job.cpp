#include "convoy/train/setup/job.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <numeric>
#include <optional>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/device.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/gpus.h"
#include "convoy/train/setup/late_notice.h"
#include "convoy/train/setup/placement.h"
#include "convoy/train/trainer.h"

namespace convoy::train {

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

/// libgomp ends the program when it cannot start a thread; this throws std::system_error.
void start_threads(int count) {
  std::promise<void> all_here;
  {
    std::vector<std::jthread> threads;
    try {
      const auto wait = all_here.get_future().share();
      for (int i = 1; i < count; ++i) threads.emplace_back([wait] { wait.wait(); });
    } catch (...) {
      all_here.set_value();
      throw;
    }
    all_here.set_value();
  }
  at::parallel_for(0, count, 1, [](int64_t, int64_t) {});  // and has them from here on
}

std::string launch_hint(size_t ranks) {
  return fmt::format(
      "DistributedDataParallel, a process per device, is usually faster: convoy "
      "launch -n {} train ...",
      ranks);
}

/// DataParallel's replicas are whole models in one process.
void check_one_process(const ParallelArguments& arguments) {
  const bool replicates = arguments.strategy == "dp" || arguments.replicas > 1;
  const int cuts = arguments.num_tensor_ranks(), contexts = arguments.num_context_ranks();
  if (cuts * contexts == 1 || !replicates) return;
  fail<UsageError>("parallel",
                   "{}_parallel_size = {} needs a process for each rank, but {} is DataParallel "
                   "in one process; try --nproc {} without it",
                   cuts > 1 ? "tensor" : "context", cuts > 1 ? cuts : contexts,
                   arguments.strategy == "dp" ? "strategy = dp"
                                              : fmt::format("replicas = {}", arguments.replicas),
                   cuts * contexts * std::max<int64_t>(2, arguments.replicas));
}

std::string sharing(size_t number, const std::string& what, size_t gpus) {
  return fmt::format("{} {} share {} and take turns", number, what,
                     gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus));
}

/// Stages of one process: `replicas` of each, or as many as there are GPUs for. Neighbours of a
/// stage share a device before others do.
Job pipeline_of_threads(Job job, const ParallelArguments& arguments,
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

}  // namespace

bool stages_are_threads(const ParallelArguments& arguments,
                        const launch::RankEnvironment& environment) {
  return arguments.num_stages() > 1 && arguments.num_stages() == arguments.ranks_of_rows() &&
         !environment.launched() && !arguments.one_process_each;
}

Job plan_job(const ParallelArguments& arguments, const launch::RankEnvironment& environment,
             const std::vector<at::Device>& visible) {
  Job job;
  job.environment = environment;
  const auto& wanted = arguments.strategy;
  const bool cuda = visible.at(0).is_cuda();
  const int world = environment.world_size;
  check_shared_tokens(arguments);

  if (world > 1) {
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
                                                       : "ddp";
    job.reason = fmt::format("{} started {} ranks{}", environment.source, world,
                             wanted == "plan" ? ", and a plan chooses the parallelism" : "");
    job.devices = {cuda ? visible[static_cast<size_t>(environment.local_rank % devices_here)]
                        : visible[0]};
    job.threads = threads_per_rank(arguments.threads, environment.local_world_size);
    return job;
  }

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
  if (wanted == "dp" || (wanted == "auto" && several)) {
    const size_t count = asked > 0 ? asked : cuda ? visible.size() : 2;
    job.strategy = "dp";
    job.reason = wanted == "dp" ? "strategy = dp was asked for"
                 : asked == 0
                     ? fmt::format("{} GPUs are visible and no launcher set ranks", visible.size())
                     : fmt::format("replicas = {} was asked for", count);
    job.faster = launch_hint(count);
    for (size_t r = 0; r < count; ++r) job.devices.push_back(visible[r % visible.size()]);
    if (cuda && count > visible.size()) {
      job.warnings.push_back(sharing(count, "replicas", visible.size()));
    }
  } else {
    job.strategy = wanted == "ddp" ? "ddp" : "single";
    job.reason = wanted == "auto" ? "one device is visible and no launcher set ranks"
                                  : fmt::format("strategy = {} was asked for", wanted);
    job.devices = {visible[0]};
    if (several) job.faster = launch_hint(replicas);
  }
  job.threads = threads_per_rank(arguments.threads, 1, static_cast<int>(job.devices.size()));
  return job;
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

FolderLock lock_output_folder(const std::filesystem::path& folder, const Job& job,
                              const ParallelArguments& arguments) {
  const bool again = job.environment.restart_count > 0;
  const std::chrono::seconds patience(again ? std::min<int64_t>(30, arguments.timeout / 2) : 0);
  FolderLock lock(folder, patience);
  if (lock.holder().empty()) return lock;
  fail<UsageError>("train",
                   "output.dir = {} is in use by {}; try another folder, or wait until that run "
                   "has ended",
                   folder.string(), lock.holder());
}

comm::StoreAddress store_address(const Job& job, const ParallelArguments& arguments) {
  const auto& env = job.environment;
  comm::StoreAddress point;
  point.rank = env.rank;
  point.size = env.world_size;
  point.ranks_on_host = env.local_world_size;
  point.host = env.master_addr;
  point.port = env.master_port;
  point.agent_hosts_store = env.uses_agent_store;
  point.attempt = env.restart_count;
  point.timeout = std::chrono::seconds(arguments.timeout);
  return point;
}

void open_devices() {
  if (machine::visible_gpus() > 0) comm::open_cuda();
}

namespace {

/// What ranks that are going to plan are until then.
ParallelArguments before_plan(ParallelArguments arguments) {
  arguments.mesh = {};
  return arguments;
}

void check_plans(const Decide& decide) {
  if (decide) return;
  fail<UsageError>("parallel",
                   "strategy = plan is for convoy train; try convoy plan, which writes a run "
                   "with --output FILE");
}

MetRanks connect_all(const comm::Connector& connector, const launch::RankEnvironment& env) {
  const auto group = [&](int first, int size, const char* name) {
    std::vector<int> ranks(static_cast<size_t>(size));
    std::iota(ranks.begin(), ranks.end(), first);
    return size > 1 ? connector.connect(ranks, name) : comm::Group();
  };
  MetRanks out;
  out.all = out.host = group(0, env.world_size, "plan");
  if (env.num_nodes == 1) return out;
  const int first = env.rank - env.local_rank;
  out.host = group(first, env.local_world_size, fmt::format("plan-host-{}", first).c_str());
  return out;
}

/// Gives this process the threads and the device of its job.
void start_here(Job& job) {
  job.own_threads = {nullptr,
                     [before = at::get_num_threads()](void*) { at::set_num_threads(before); }};
  at::set_num_threads(job.threads);
  start_threads(job.threads);
  comm::use_device(job.devices[0]);
  // Its attention makes a plan for every shape, of which batches have many, and has failed on
  // masks.
  if (job.devices[0].is_cuda()) at::globalContext().setSDPUseCuDNN(false);
}

/// Waits for the other ranks, which must have been given the same arguments and the same `purpose`;
/// null where there is one only.
std::shared_ptr<comm::Connector> connect(const Job& job, const ParallelArguments& arguments,
                                         const std::string& purpose) {
  const auto& env = job.environment;
  if (env.world_size == 1) return nullptr;
  // Ranks that were started one by one may have been given others, which form other groups.
  auto options = arguments.shared_options();
  options.push_back(fmt::format("ranks of a state replica = {}",
                                mesh_of(arguments, env).degree(schedule::kState)));
  options.push_back(purpose);
  std::optional<LateNotice> notice;
  if (env.local_rank == 0) {
    notice.emplace(
        std::chrono::seconds(5),
        fmt::format("rank {} of {} waits at {}:{} for the others, for up to {} s "
                    "(ddp_timeout)",
                    env.rank, env.world_size, env.master_addr, env.master_port, arguments.timeout));
  }
  return std::make_shared<comm::Connector>(store_address(job, arguments), arguments.backend,
                                           job.devices[0], options);
}

}  // namespace

void check_even_hosts(const launch::RankEnvironment& environment, const std::string& what) {
  const auto& ranks = environment;
  if (ranks.local_world_size * ranks.num_nodes == ranks.world_size) return;
  fail<UsageError>("plan",
                   "{} needs as many ranks on each host; got {} ranks on {} hosts, {} of them here",
                   what, ranks.world_size, ranks.num_nodes, ranks.local_world_size);
}

void meet_ranks(const ParallelArguments& given, const std::string& work_name,
                const std::function<void(const Job& met, const MetRanks& ranks)>& work) {
  const auto arguments = before_plan(given);
  const auto visible = visible_devices(arguments.device);
  comm::check_backend(arguments.backend, visible.at(0));
  auto job = plan_job(arguments, launch::detect_environment(), visible);
  start_here(job);
  const auto connector = connect(job, arguments, "work is " + work_name);
  check_even_hosts(job.environment, work_name);  // on all ranks: each counts hosts by its own
  work(job, connector ? connect_all(*connector, job.environment) : MetRanks());
}

Job join_job(const ParallelArguments& given, const Decide& decide) {
  std::string why_no_gpu;
  const auto visible = visible_devices(given.device, &why_no_gpu);
  const bool plans = given.strategy == "plan";
  if (plans) check_plans(decide);
  auto arguments = plans ? before_plan(given) : given;
  comm::check_backend(arguments.backend, visible.at(0));
  auto job = plan_job(arguments, launch::detect_environment(), visible);
  const auto& planned = arguments.planned;
  if (planned.ranks == job.environment.world_size * std::ssize(job.devices)) {
    const bool elsewhere = !planned.device.empty() && job.devices[0].is_cpu();
    if (!elsewhere) job.planned = planned;
    if (elsewhere) {
      job.warnings.push_back(fmt::format(
          "this run was planned for {}: on this host's processor its predictions do not hold",
          planned.device));
    }
  }
  start_here(job);
  const auto env = job.environment;
  const auto connector =
      connect(job, arguments, plans ? "strategy is plan" : "strategy is not plan");
  if (plans) {
    auto decision = decide(job, connector ? connect_all(*connector, env) : MetRanks());
    arguments = std::move(decision.parallel);
    const auto own_threads = job.own_threads;
    job = plan_job(arguments, env, visible);
    job.own_threads = own_threads;
    job.planned = std::move(decision.planned);
  }
  if (!why_no_gpu.empty()) {
    job.warnings.push_back(fmt::format(
        "there is a GPU, but the CPU is used: {}; if intended, set --device cpu", why_no_gpu));
  }
  if (env.world_size == 1 && arguments.mesh.shard != "all") {
    job.warnings.push_back(
        fmt::format("shard_ranks = {} has no effect in one process; try convoy "
                    "launch -n 4 train ...",
                    arguments.mesh.shard));
  }
  if (!connector) return job;
  const auto mesh = mesh_of(arguments, env);
  job.groups = comm::Groups(
      mesh, [&](const auto& ranks, const auto& name) { return connector->connect(ranks, name); },
      [&](const auto& ranks, const auto& name) {
        return connector->connect_later(ranks, name, std::chrono::seconds(arguments.timeout));
      });
  // On one host nothing listens once the ranks share memory.
  if (std::string_view(job.world().engine()) != "shm") job.connector = connector;
  if (arguments.mesh.shard == "host" && mesh.degree(schedule::Axis::Replicate) > 1) {
    std::vector<std::string> hosts;
    for (const auto& place : gather_placements(job)) hosts.push_back(place.host);
    check_state_replicas(mesh, hosts);
  }
  using schedule::Axis;
  if (mesh.degree(Axis::Replicate | Axis::Pipeline | Axis::Context | Axis::Tensor) > 1) {
    job.world().barrier("form groups");  // rank 0's store goes, which others may still need
  }
  return job;
}

}  // namespace convoy::train
