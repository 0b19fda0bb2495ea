#include "convoy/launch/supervise/rank_processes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace convoy::launch {
namespace {

using Variables = std::map<std::string, std::string>;

void set_unless_given(Variables& env, const char* name, const std::string& value) {
  if (std::getenv(name) == nullptr) env[name] = value;
}

}  // namespace

Variables rank_variables(const NodeInfo& node, const LaunchOptions& options, int rank) {
  const auto number = [](int value) { return fmt::format("{}", value); };
  Variables env = {
      {"RANK", number(rank)},
      {"LOCAL_RANK", number(rank - node.first_rank)},
      {"GROUP_RANK", number(node.node_rank)},
      {"ROLE_RANK", number(rank)},
      {"ROLE_NAME", "default"},
      {"WORLD_SIZE", number(node.world_size)},
      {"LOCAL_WORLD_SIZE", number(options.num_ranks)},
      {"GROUP_WORLD_SIZE", number(node.num_nodes)},
      {"ROLE_WORLD_SIZE", number(node.world_size)},
      {"MASTER_ADDR", node.master_addr},
      {"MASTER_PORT", number(node.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", number(node.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", number(options.max_restarts)},
      {"TORCHELASTIC_RUN_ID", node.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
      {"CONVOY_ROUND", number(node.round)},
      {"CONVOY_JOB_START", fmt::format("{:.3f}", node.job_start)},
      {"CONVOY_LAUNCHER", "convoy"},
      {"CONVOY_KEPT_MEMORY", node.kept_memory},
  };
  // A scheduler tells its grace period with the signal, so it is not known before.
  const bool scheduled = !options.interrupt_grace_seconds && std::getenv("SLURM_JOB_ID") != nullptr;
  if (!scheduled) {
    env["CONVOY_INTERRUPT_GRACE"] =
        fmt::format("{:g}", options.interrupt_grace_seconds.value_or(kInterruptGrace));
  }
  // Ranks listen on the interface between their hosts alone: on one host, on loopback.
  if (!node.interface.empty()) {
    set_unless_given(env, "GLOO_SOCKET_IFNAME", node.interface);
    set_unless_given(env, "NCCL_SOCKET_IFNAME", node.interface);
  }
  // Threads that wait for each other spin for milliseconds by default, while a rank beside them
  // needs the core. 1000 are some 10 us. libgomp reads it before a rank's main().
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) set_unless_given(env, "GOMP_SPINCOUNT", "1000");
  if (options.threads_per_rank > 0 || options.num_ranks > 1) {
    set_unless_given(env, "OMP_NUM_THREADS", number(std::max(1, options.threads_per_rank)));
  }
  return env;
}

}  // namespace convoy::launch
