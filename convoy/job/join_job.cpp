#include "convoy/job/job.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>

#include "convoy/base/error.h"
#include "convoy/comm/cuda.h"
#include "convoy/comm/device.h"
#include "convoy/job/hosts_of_ranks.h"
#include "convoy/job/job_id.h"
#include "convoy/job/late_notice.h"
#include "convoy/job/open_devices.h"
#include "convoy/job/placement.h"
#include "convoy/machine/gpus.h"
#include "convoy/parallel/refuse.h"

// Rendezvous of a job's ranks.
namespace convoy::job {

FolderLock lock_output_folder(const std::filesystem::path& folder, const Job& job,
                              const options::ParallelArguments& arguments) {
  const bool again = job.environment.restart_count > 0;
  const std::chrono::seconds patience(again ? std::min<int64_t>(30, arguments.timeout / 2) : 0);
  FolderLock lock(folder, patience);
  if (lock.holder().empty()) return lock;
  fail<UsageError>("train",
                   "output.dir = {} is in use by {}; try another folder, or wait until that run "
                   "has ended",
                   folder.string(), lock.holder());
}

comm::StoreAddress store_address(const Job& job, const options::ParallelArguments& arguments) {
  const auto& env = job.environment;
  comm::StoreAddress point;
  point.rank = env.rank;
  point.size = env.world_size;
  point.ranks_on_host = env.local_world_size;
  point.host = env.master_addr;
  point.port = env.master_port;
  point.agent_hosts_store = env.uses_agent_store;
  point.job = env.job_name;
  point.attempt = env.restart_count;
  point.timeout = std::chrono::seconds(arguments.timeout);
  return point;
}

namespace {

/// Starts threads, or throws std::system_error: libgomp ends the program where it cannot start one.
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

/// Arguments of ranks before they have planned.
options::ParallelArguments before_plan(options::ParallelArguments arguments) {
  arguments.parallelism.ranks = {};
  arguments.shard_ranks = "all";
  return arguments;
}

void check_plans(const Decide& decide) {
  if (decide) return;
  fail<UsageError>("parallel",
                   "strategy = plan is for convoy train; try convoy plan, which writes a run "
                   "with --output FILE");
}

MetRanks connect_all(const comm::Connector& connector, const launch::RankEnvironment& env) {
  std::vector<int> all(static_cast<size_t>(env.world_size));
  std::iota(all.begin(), all.end(), 0);
  MetRanks out;
  out.all = connector.connect(all, "plan");
  // Ranks need not be numbered host by host.
  const auto hosts = hosts_of_ranks(out.all, env.local_rank);
  const auto own = hosts.at(static_cast<size_t>(env.rank));
  std::vector<int> here;
  for (const int rank : all) {
    if (hosts[static_cast<size_t>(rank)] == own) here.push_back(rank);
  }
  out.host = here == all ? out.all : connector.connect(here, fmt::format("plan-host-{}", own));
  return out;
}

/// Gives this process the threads and the device of its job.
void start_here(Job& job) {
  job.own_threads = {nullptr,
                     [before = at::get_num_threads()](void*) { at::set_num_threads(before); }};
  at::set_num_threads(job.threads);
  start_threads(job.threads);
  comm::use_device(job.devices[0]);
  // cuDNN's attention makes a plan for each shape, of which batches have many, and has failed on
  // masks.
  if (job.devices[0].is_cuda()) at::globalContext().setSDPUseCuDNN(false);
}

/// Waits for the other ranks, which must have been given the same arguments and the same `purpose`;
/// null where there is one only.
std::shared_ptr<comm::Connector> connect(const Job& job,
                                         const options::ParallelArguments& arguments,
                                         const std::string& purpose) {
  const auto& env = job.environment;
  if (env.world_size == 1) return nullptr;
  // Ranks that were started one by one may have been given others, which form other groups.
  auto options = arguments.shared_options();
  options.push_back(fmt::format("ranks of a state replica = {}",
                                mesh_of(arguments, env).degree(parallel::kState)));
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
  fail<UsageError>("parallel",
                   "{} needs as many ranks on each host; got {} ranks on {} hosts, {} of them here",
                   what, ranks.world_size, ranks.num_nodes, ranks.local_world_size);
}

void meet_ranks(const options::ParallelArguments& given, const std::string& work_name,
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

Job join_job(const options::ParallelArguments& given, const Decide& decide) {
  std::string why_no_gpu;
  const auto visible = visible_devices(given.device, &why_no_gpu);
  const bool plans = given.strategy == "plan";
  if (plans) check_plans(decide);
  // Options that no run takes are refused before the ranks meet and read data.
  if (!plans) parallel::require(refuse(given.parallelism, {.trains = false}));
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
  if (env.world_size == 1 && arguments.shard_ranks != "all") {
    job.warnings.push_back(
        fmt::format("shard_ranks = {} has no effect in one process; try convoy "
                    "launch -n 4 train ...",
                    arguments.shard_ranks));
  }
  if (!connector) {
    add_agents(job);
    return job;
  }
  const auto mesh = mesh_of(arguments, env);
  job.groups = comm::Groups(
      mesh, [&](const auto& ranks, const auto& name) { return connector->connect(ranks, name); },
      [&](const auto& ranks, const auto& name) {
        return connector->connect_later(ranks, name, std::chrono::seconds(arguments.timeout));
      });
  // No connector is kept on one host, as nothing listens once the ranks share memory.
  if (std::string_view(job.world().engine()) != "shm") job.connector = connector;
  if (arguments.shard_ranks == "host" && mesh.degree(parallel::Axis::Replicate) > 1) {
    std::vector<std::string> hosts;
    for (const auto& place : gather_placements(job)) hosts.push_back(place.host);
    check_state_replicas(mesh, hosts);
  }
  add_agents(job);
  using parallel::Axis;
  const auto beside_shard = Axis::Replicate | Axis::Pipeline | Axis::Expert | Axis::Context;
  if (mesh.degree(beside_shard | Axis::Tensor) > 1) {
    job.world().barrier("form groups");  // rank 0's store goes, which others may still need
  }
  return job;
}

}  // namespace convoy::job
