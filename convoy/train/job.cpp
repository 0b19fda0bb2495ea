#include "convoy/train/job.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <future>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/device.h"
#include "convoy/machine/cores.h"
#include "convoy/machine/gpus.h"
#include "convoy/train/placement.h"

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

std::string sharing(size_t number, const char* what, size_t gpus) {
  return fmt::format("{} {} share {} and take turns", number, what,
                     gpus == 1 ? "one GPU" : fmt::format("{} GPUs", gpus));
}

}  // namespace

Job plan_job(const ParallelArguments& arguments, const launch::RankEnvironment& environment,
             const std::vector<at::Device>& visible) {
  Job job;
  job.environment = environment;
  const auto& wanted = arguments.strategy;
  const bool cuda = visible.at(0).is_cuda();
  const int world = environment.world_size;

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
    check_pipeline(arguments, environment);
    job.strategy = arguments.pipeline_parallel_size > 1 ? "pipeline" : "ddp";
    job.reason = fmt::format("{} started {} ranks", environment.source, world);
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
  check_pipeline(arguments, environment);
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

comm::MeetingPoint meeting_point(const Job& job, const ParallelArguments& arguments) {
  const auto& env = job.environment;
  comm::MeetingPoint point;
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

void check_pipeline(const ParallelArguments& arguments,
                    const launch::RankEnvironment& environment) {
  const int64_t stages = arguments.pipeline_parallel_size, ranks = environment.world_size;
  if (ranks % stages == 0) return;
  fail<UsageError>("parallel",
                   "pipeline_parallel_size = {} needs a process for each stage; got {}; try "
                   "--nproc {}, or convoy launch -n {} ...",
                   stages, ranks == 1 ? "one process" : fmt::format("{} ranks", ranks),
                   (ranks / stages + 1) * stages, (ranks / stages + 1) * stages);
}

int shard_size(const ParallelArguments& arguments, const launch::RankEnvironment& environment) {
  const auto ranks = environment.world_size / static_cast<int>(arguments.pipeline_parallel_size);
  const auto& text = arguments.shard_ranks;
  if (text == "all") return 0;
  int64_t size = std::min(environment.local_world_size, ranks);
  if (text != "host" && (!parse_number(text, size) || size < 1)) {
    fail<UsageError>("parallel", "shard_ranks = {}; expected all, host, or a number of ranks",
                     text);
  }
  if (ranks % size != 0) {
    int64_t fits = std::min<int64_t>(size, ranks);
    while (ranks % fits != 0) --fits;
    fail<UsageError>("parallel", "shard_ranks = {}{} does not divide the {} ranks {}; try {}", text,
                     text == "host" ? fmt::format(", {} here,", size) : "", ranks,
                     ranks == environment.world_size ? "of the job" : "of a stage",
                     fits == 1 ? "all" : std::to_string(fits));
  }
  return size == ranks ? 0 : static_cast<int>(size);
}

void check_copies(int shard_ranks, const std::vector<std::string>& hosts) {
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const size_t first = rank - rank % static_cast<size_t>(shard_ranks);
    if (hosts[rank] == hosts[first]) continue;
    fail<UsageError>("parallel",
                     "shard_ranks = host lets ranks {} to {} keep a copy together; got rank {} on "
                     "{}, rank {} on {}; start the ranks of a host one after the other (srun -m "
                     "block), as many on each",
                     first, first + static_cast<size_t>(shard_ranks) - 1, first, hosts[first], rank,
                     hosts[rank]);
  }
}

Job join_job(const ParallelArguments& arguments) {
  std::string why_no_gpu;
  const auto visible = visible_devices(arguments.device, &why_no_gpu);
  comm::check_backend(arguments.backend, visible.at(0));
  auto job = plan_job(arguments, launch::detect_environment(), visible);
  if (!why_no_gpu.empty()) {
    job.warnings.push_back(fmt::format(
        "there is a GPU, but the CPU is used: {}; --device cpu says that it is meant", why_no_gpu));
  }
  at::set_num_threads(job.threads);
  start_threads(job.threads);
  comm::use_device(job.devices[0]);
  // Its attention makes a plan for every shape, of which batches have many, and has failed on
  // masks.
  if (job.devices[0].is_cuda()) at::globalContext().setSDPUseCuDNN(false);
  const auto& env = job.environment;
  if (env.world_size == 1 && arguments.shard_ranks != "all") {
    job.warnings.push_back(
        fmt::format("shard_ranks = {} has no effect in one process; try convoy "
                    "launch -n 4 train ...",
                    arguments.shard_ranks));
  }
  if (env.world_size > 1) {
    job.shard_ranks = shard_size(arguments, env);
    const auto point = meeting_point(job, arguments);
    // Ranks that were started one by one may have been given others, which form other groups.
    auto options = arguments.shared_options();
    options.push_back(fmt::format("ranks of a copy = {}", job.shard_ranks));
    const auto connector =
        std::make_shared<comm::Connector>(point, arguments.backend, job.devices[0], options);
    const auto connect = [&](const std::vector<int>& ranks, const std::string& name) {
      return connector->connect(ranks, name);
    };
    comm::MeshDegrees degrees;
    degrees.pipeline = static_cast<int>(arguments.pipeline_parallel_size);
    job.mesh = comm::Mesh(degrees, point.rank, point.size, connect);
    job.group = job.mesh.world();
    job.data = job.mesh.sharing();
    const auto stages = job.mesh.ranks_along(comm::Axis::Pipeline);
    const auto& forth = job.mesh.group(comm::Axis::Pipeline);
    if (forth.size() > 1 && std::string_view(forth.engine()) == "nccl") {
      job.pipeline_back = connect(stages, fmt::format("pipeline-back-{}", stages.front()));
      job.pipeline_heads = connector->connect_later(
          stages, fmt::format("pipeline-heads-{}", stages.front()), point.timeout);
    }
    // On one host nothing listens once the ranks share memory.
    if (std::string_view(job.group.engine()) != "shm") job.connector = connector;
    if (job.shard_ranks > 0) {
      if (arguments.shard_ranks == "host") {
        std::vector<std::string> hosts;
        for (const auto& place : gather_placements(job)) hosts.push_back(place.host);
        check_copies(job.shard_ranks, hosts);
      }
      std::vector<int> shard, replicas;
      for (const int r : job.mesh.ranks_along({comm::Axis::Data})) {
        if (r / job.shard_ranks == point.rank / job.shard_ranks) shard.push_back(r);
        if (r % job.shard_ranks == point.rank % job.shard_ranks) replicas.push_back(r);
      }
      job.shard = connect(shard, fmt::format("shard-{}", shard.front()));
      job.replicas = connect(replicas, fmt::format("replicas-{}", replicas.front()));
    }
    if (job.shard_ranks > 0 || degrees.pipeline > 1) {
      job.group.barrier("form groups");  // rank 0's store goes, which others may still need
    }
  }
  return job;
}

}  // namespace convoy::train
