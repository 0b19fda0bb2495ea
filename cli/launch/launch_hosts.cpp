#include "cli/launch/launch_hosts.h"

#include <algorithm>
#include <map>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/hosts/hostfile.h"

namespace convoy::cli {
namespace {

constexpr int kDefaultPort = 29400;  // torchrun's
constexpr int kMostNodes = 65536;

/// Parses the range of a number of hosts: "4" or "2:4".
std::pair<int, int> read_range(const std::string& text) {
  const auto parts = split(text, ':');
  int64_t low = 0;
  int64_t high = 0;
  if (parts.empty() || parts.size() > 2 || !parse_number(parts.front(), low) ||
      !parse_number(parts.back(), high) || low < 1 || high < low || high > kMostNodes) {
    fail<UsageError>("launch",
                     "--nnodes is '{}'; expected a number of hosts or the smallest and largest, "
                     "such as 2:4",
                     text);
  }
  return {static_cast<int>(low), static_cast<int>(high)};
}

/// Parses torchrun's --rdzv-conf: "key=value,key=value".
void read_conf(const std::string& text, launch::HostOptions& out) {
  auto& options = out.rendezvous;
  const std::map<std::string, double*> numbers = {
      {"join_timeout", &options.join_timeout},
      {"timeout", &options.join_timeout},
      {"last_call_timeout", &options.last_call_timeout},
      {"heartbeat_timeout", &options.heartbeat_timeout}};
  for (const std::string& part : split(text, ',')) {
    if (trim(part).empty()) continue;
    const size_t equals = part.find('=');
    const std::string key = trim(part.substr(0, equals));
    const std::string value = equals == std::string::npos ? "" : trim(part.substr(equals + 1));
    if (key == "is_host" && (value == "true" || value == "false" || value == "1" || value == "0")) {
      out.serves = value == "true" || value == "1";
    } else if (!numbers.contains(key) || !parse_number(value, *numbers.at(key)) ||
               !(*numbers.at(key) > 0)) {
      fail<UsageError>("launch",
                       "--rdzv-conf has '{}'; expected join_timeout, last_call_timeout or "
                       "heartbeat_timeout = seconds, or is_host = true or false",
                       trim(part));
    }
  }
}

}  // namespace

void HostArguments::add_to(CLI::App& command) {
  const auto add = [&](const char* names, auto& value, const char* help,
                       const char* group = "Several hosts") {
    add_option(command, names, value, help)->group(group);
  };
  add("--nnodes", num_nodes, "Number of hosts (1), or MIN:MAX, such as 2:4");
  add("-H,--hostfile", hostfile,
      "File with a line for each host, as in DeepSpeed and Open MPI: node7 slots=8; sets --nnodes, "
      "--node-rank, --rdzv-endpoint (the first host) and, with slots, -n");
  add("--node-rank", node_rank, "Number of this host, from 0 (any that is free)");
  add("--rdzv-endpoint", endpoint,
      "host:port of the rendezvous; the host with this address serves it (port 29400; under SLURM "
      "the first host of the job)");
  add("--rdzv-id", run_id, "Name of the job, the same on all hosts");
  add("--rdzv-conf", conf,
      "join_timeout=600,last_call_timeout=5,heartbeat_timeout=10 in seconds, is_host=true");
  add("--token-file", token_file,
      "File with the shared secret, readable by its owner only; else the environment variable "
      "CONVOY_TOKEN");
  add("--local-addr", local_address, "Address by which others reach this host");
  command
      .add_flag(
          "--serve-only", serve_only,
          "Serve the rendezvous at --rdzv-endpoint and start no ranks: for a login node, which "
          "outlives the hosts")
      ->group("Several hosts");
  add("--rdzv-backend", backend, "c10d or static: both mean convoy's own", "");
  add("--master-addr", master_addr, "The same as --rdzv-endpoint without a port", "");
  command.add_flag("--standalone", standalone)->group("");
}

int HostArguments::take_hostfile() {
  if (hostfile.empty()) return 0;
  if (chosen()) {
    fail<UsageError>("launch",
                     "--hostfile and {} both say how many hosts there are; try one of them",
                     standalone ? "--standalone" : "--nnodes");
  }
  const auto hosts = launch::read_hostfile(hostfile);
  const auto count = static_cast<int>(hosts.size());
  if (node_rank < 0) node_rank = launch::own_place(hosts, hostfile);
  if (node_rank >= count) {
    fail<UsageError>("launch", "--node-rank is {}, but {} names {}; expected a number from 0 to {}",
                     node_rank, hostfile, plural(count, "host"), count - 1);
  }
  num_nodes = std::to_string(count);
  if (endpoint.empty() && master_addr.empty()) master_addr = hosts.front().name;
  return hosts[static_cast<size_t>(node_rank)].slots;
}

std::optional<launch::HostOptions> HostArguments::read(const launch::LaunchOptions& launch) const {
  launch::HostOptions out;
  auto& options = out.rendezvous;
  const std::string hosts = num_nodes.empty() ? "1" : num_nodes;
  std::tie(options.min_nodes, options.max_nodes) = read_range(hosts);
  if (backend != "c10d" && backend != "static") {
    fail<UsageError>("launch", "--rdzv-backend is '{}'; expected c10d or static", backend);
  }
  if (standalone || options.max_nodes == 1) {
    if (options.max_nodes > 1 || node_rank > 0) {
      fail<UsageError>("launch",
                       "--nnodes {} --node-rank {} do not fit together or not with --standalone; "
                       "expected --nnodes of at least 2 for several hosts",
                       hosts, node_rank);
    }
    return std::nullopt;
  }
  if (node_rank >= options.max_nodes || node_rank < -1) {
    fail<UsageError>("launch", "--node-rank is {}; expected a number from 0 to {}", node_rank,
                     options.max_nodes - 1);
  }
  std::string place = endpoint.empty() ? master_addr : endpoint;
  if (endpoint.empty() && !place.empty() && node_rank >= 0) out.serves = node_rank == 0;
  if (place.empty()) place = launch::slurm_endpoint().value_or("");
  if (place.empty()) {
    fail<UsageError>("launch",
                     "--nnodes {} needs a place where the hosts meet; try --rdzv-endpoint "
                     "host0:29400 with the name of one of them, the same on all",
                     hosts);
  }
  out.endpoint = launch::parse_endpoint(place, kDefaultPort);
  read_conf(conf, out);
  out.node_rank = node_rank;
  out.token_file = token_file;
  out.local_address = local_address;
  options.run_id = run_id;
  options.max_restarts = launch.max_restarts;
  const bool scheduled = launch::process_variable("SLURM_JOB_ID") != nullptr;
  const double grace = launch.interrupt_grace_seconds.value_or(
      scheduled ? launch::kMostSchedulerGrace : launch::kInterruptGrace);
  options.save_timeout = 2 * std::max(grace, launch::kInterruptGrace);
  return out;
}

}  // namespace convoy::cli
