#include "convoy/launch/environment.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/hostlist.h"

namespace convoy::launch {
namespace {

/// Names of the environment variables of a launcher.
struct Names {
  const char* source;
  const char* rank;
  const char* world_size;
  const char* local_rank;
  const char* local_world_size;
  const char* node_rank;  ///< null where the launcher does not tell
  const char* num_nodes = "SLURM_NNODES";
  const char* job = nullptr;  ///< number of the job; null: as PMI or SLURM tell it
};

constexpr Names kTorch = {"environment",      "RANK",      "WORLD_SIZE", "LOCAL_RANK",
                          "LOCAL_WORLD_SIZE", "GROUP_RANK"};
// OMPI_COMM_WORLD_NODE_RANK counts processes on a node, not nodes.
constexpr Names kOpenMpi = {"MPI (Open MPI)",
                            "OMPI_COMM_WORLD_RANK",
                            "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE",
                            nullptr};
constexpr Names kPmi = {"MPI (PMI)",       "PMI_RANK",        "PMI_SIZE",
                        "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr};
constexpr Names kMvapich = {"MPI (MVAPICH2)",
                            "MV2_COMM_WORLD_RANK",
                            "MV2_COMM_WORLD_SIZE",
                            "MV2_COMM_WORLD_LOCAL_RANK",
                            "MV2_COMM_WORLD_LOCAL_SIZE",
                            nullptr};
constexpr Names kSlurm = {"SLURM",         "SLURM_PROCID", "SLURM_NTASKS",
                          "SLURM_LOCALID", nullptr,        "SLURM_NODEID"};

// Flux speaks PMI as well, whose names tell less.
constexpr Names kFlux = {"Flux",  "FLUX_TASK_RANK", "FLUX_JOB_SIZE",   "FLUX_TASK_LOCAL_ID",
                         nullptr, nullptr,          "FLUX_JOB_NNODES", "FLUX_JOB_ID"};
// jsrun of IBM's Job Step Manager.
constexpr Names kLsf = {"LSF (jsrun)",
                        "JSM_NAMESPACE_RANK",
                        "JSM_NAMESPACE_SIZE",
                        "JSM_NAMESPACE_LOCAL_RANK",
                        "JSM_NAMESPACE_LOCAL_SIZE",
                        nullptr,
                        "SLURM_NNODES",
                        "LSB_JOBID"};
// mpiexec of HPE's Parallel Application Launch Service.
constexpr Names kPals = {"PBS (PALS)",      "PALS_RANKID", "PMI_SIZE",     "PALS_LOCAL_RANKID",
                         "PALS_LOCAL_SIZE", nullptr,       "SLURM_NNODES", "PBS_JOBID"};

class Reader {
 public:
  explicit Reader(const GetEnv& get) : get_(get) {}

  std::string text(const char* name) const {
    const char* value = name == nullptr ? nullptr : get_(name);
    return value == nullptr ? "" : trim(value);
  }

  bool has(const char* name) const { return !text(name).empty(); }

  std::optional<int> number(const char* name, int low,
                            int high = std::numeric_limits<int>::max()) const {
    const std::string value = text(name);
    if (value.empty()) return std::nullopt;
    int64_t parsed = 0;
    if (!parse_number(value, parsed) || parsed < low || parsed > high) {
      const std::string limit =
          high == std::numeric_limits<int>::max() ? "" : fmt::format(" and at most {}", high);
      fail<UsageError>("launch",
                       "the environment variable {} is '{}'; expected a whole number of at least "
                       "{}{}; try to unset it, or start with convoy launch",
                       name, value, low, limit);
    }
    return static_cast<int>(parsed);
  }

  int needed(const char* name, int low, const char* because) const {
    const auto value = number(name, low);
    if (!value) {
      fail<UsageError>(
          "launch",
          "the environment variable {} is missing although {} is set to '{}'; expected "
          "both or none; try convoy launch, or unset {}",
          name, because, text(because), because);
    }
    return *value;
  }

 private:
  const GetEnv& get_;
};

void check_below(const char* name, int value, const std::string& limit_name, int limit) {
  if (value < limit) return;
  fail<UsageError>("launch",
                   "the environment variable {} is {} but {} is {}; expected a rank from 0 to {}",
                   name, value, limit_name, limit, limit - 1);
}

int divide_up(int a, int b) {
  return a / b + (a % b != 0);
}

/// Fills the six numbers from one launcher's names.
void read_numbers(const Reader& env, const Names& names, RankEnvironment& out) {
  out.source = names.source;
  out.rank = env.number(names.rank, 0).value_or(0);
  out.world_size = env.needed(names.world_size, 1, names.rank);
  check_below(names.rank, out.rank, names.world_size, out.world_size);

  const auto local_rank = env.number(names.local_rank, 0);
  // Ranks that nobody places are taken to share this host.
  out.local_world_size =
      env.number(names.local_world_size, 1).value_or(local_rank ? 0 : out.world_size);
  if (out.local_world_size == 0) {
    const int nodes = env.number(names.num_nodes, 1).value_or(1);
    out.local_world_size = std::max(*local_rank + 1, divide_up(out.world_size, nodes));
  }
  const std::string local_world_name =
      env.has(names.local_world_size) ? names.local_world_size : "the number of ranks on this host";
  if (out.local_world_size > out.world_size) {
    fail<UsageError>("launch",
                     "{} is {} but {} is {}; expected no more ranks on a host than in all",
                     local_world_name, out.local_world_size, names.world_size, out.world_size);
  }
  out.local_rank = local_rank.value_or(out.rank % out.local_world_size);
  check_below(names.local_rank, out.local_rank, local_world_name, out.local_world_size);

  out.num_nodes = divide_up(out.world_size, out.local_world_size);
  out.node_rank = env.number(names.node_rank, 0).value_or(out.rank / out.local_world_size);
}

/// Sets the numbers of nodes and of local ranks of a SLURM job, whose tasks per node are a list by
/// node.
void refine_slurm(const Reader& env, RankEnvironment& out) {
  std::string tasks = env.text("SLURM_STEP_TASKS_PER_NODE");
  if (tasks.empty()) tasks = env.text("SLURM_TASKS_PER_NODE");
  if (tasks.empty()) return;
  const std::vector<int> counts = expand_counts(tasks);
  int sum = 0;
  for (int count : counts) sum += count;
  // A step that uses less than the job leaves the job's list behind: then the list says nothing.
  if (sum != out.world_size) return;
  out.num_nodes = static_cast<int>(counts.size());
  check_below("SLURM_NODEID", out.node_rank, "the number of nodes in SLURM_TASKS_PER_NODE",
              out.num_nodes);
  out.local_world_size = counts[out.node_rank];
  check_below("SLURM_LOCALID", out.local_rank, "the number of tasks on this node",
              out.local_world_size);
}

bool inside_slurm_step(const Reader& env) {
  const std::string job = env.text("SLURM_JOB_NAME");
  return env.has("SLURM_PROCID") && job != "bash" && job != "interactive" &&
         env.number("SLURM_NTASKS", 1).value_or(1) > 1;
}

/// Distance from the port of the ranks' store to the port where hosts meet.
constexpr int kBesideMaster = 10000;

constexpr int kJobPorts = 10000;
/// Distance from the ports of one step of a job to those of the next: no divisor of kJobPorts, and
/// far from the jobs that come next.
constexpr int64_t kStepStride = 613;

/// Number that all ranks of one job, or of one step of a SLURM job, share.
std::optional<int64_t> last_digits(const std::string& name) {
  std::string digits;
  std::copy_if(name.begin(), name.end(), std::back_inserter(digits),
               [](char c) { return c >= '0' && c <= '9'; });
  if (digits.empty()) return std::nullopt;
  return std::stoi(digits.substr(digits.size() - std::min<size_t>(4, digits.size())));
}

/// Number of the SLURM step of all these processes; "" where there is no common one: mpirun starts
/// some of its ranks outside the step of the others.
std::string step_of(const Reader& env, const std::string& source) {
  return source == kSlurm.source ? env.text("SLURM_STEP_ID") : "";
}

/// Names of a launcher that has a variable of its own for the job's number; null for others.
const Names* of_scheduler(const std::string& source) {
  for (const auto* names : {&kFlux, &kLsf, &kPals}) {
    if (source == names->source) return names;
  }
  return nullptr;
}

/// Port that all ranks of one job derive, and other jobs on the host probably do not use.
std::optional<int> port_from_job(const Reader& env, const std::string& source) {
  std::vector<const char*> names{"PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "SLURM_JOBID"};
  if (const auto* scheduler = of_scheduler(source)) names = {scheduler->job};
  if (source == kSlurm.source) std::rotate(names.begin(), names.begin() + 2, names.end());
  for (const char* name : names) {
    const auto job = last_digits(env.text(name));
    if (!job) continue;
    const int64_t step = last_digits(step_of(env, source)).value_or(0);
    return 15000 + static_cast<int>((*job + kStepStride * step) % kJobPorts);
  }
  return std::nullopt;
}

std::string name_of_job(const Reader& env, const RankEnvironment& ranks) {
  if (ranks.source == kSlurm.source) {
    return fmt::format("SLURM {}.{}", env.text("SLURM_JOB_ID"), step_of(env, ranks.source));
  }
  if (ranks.source == "torchrun" || ranks.source == "convoy launch") return ranks.job_id;
  if (const auto* scheduler = of_scheduler(ranks.source)) {
    return fmt::format("{} {}", scheduler->source, env.text(scheduler->job));
  }
  return ranks.source == "environment" ? "" : env.text("PMIX_NAMESPACE");
}

/// Id of a torchrun agent, from the path of an error file: torchrun makes a folder `ID_xxxxxxxx`
/// with a file `attempt_0/0/error.json` for each start and rank.
std::string agent_of(const std::filesystem::path& error_file) {
  const auto start = error_file.parent_path().parent_path();
  if (!start.filename().string().starts_with("attempt_")) return "";
  const auto name = start.parent_path().filename().string();
  return name.substr(name.size() - std::min<size_t>(name.size(), 8));
}

std::optional<std::string> first_slurm_host(const Reader& env) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"}) {
    if (!env.has(name)) continue;
    const auto hosts = expand_hostlist(env.text(name));
    return hosts.empty() ? std::nullopt : std::optional(hosts.front());
  }
  return std::nullopt;
}

/// First compute host of an LSF job by LSB_MCPU_HOSTS, a list of hosts and slots that begins with
/// the host of the job's script.
std::optional<std::string> first_lsf_host(const Reader& env) {
  std::istringstream list(env.text("LSB_MCPU_HOSTS"));
  std::vector<std::string> hosts;
  for (std::string host, slots; list >> host >> slots;) hosts.push_back(host);
  if (hosts.empty()) return std::nullopt;
  return hosts.size() > 1 ? hosts[1] : hosts[0];
}

/// First host of a PBS job, the first line of its file of hosts.
std::optional<std::string> first_pbs_host(const Reader& env) {
  std::ifstream file(env.text("PBS_NODEFILE"));
  std::string line;
  std::getline(file, line);
  const auto host = trim(line);
  return host.empty() ? std::nullopt : std::optional(host);
}

std::optional<std::string> first_host(const Reader& env, const std::string& source) {
  if (source == kLsf.source) return first_lsf_host(env);
  if (source == kPals.source) return first_pbs_host(env);
  return source == kFlux.source ? std::nullopt : first_slurm_host(env);
}

void find_master(const Reader& env, RankEnvironment& out) {
  if (const auto port = env.number("MASTER_PORT", 1, 65535)) {
    out.master_port = *port;
  } else {
    out.master_port = port_from_job(env, out.source).value_or(out.master_port);
  }
  const std::string given = env.text("MASTER_ADDR");
  if (!given.empty()) {
    out.master_addr = given;
    return;
  }
  if (out.num_nodes == 1) return;
  const auto first = first_host(env, out.source);
  if (!first) {
    fail<UsageError>(
        "launch",
        "the environment variable MASTER_ADDR is missing; the {} ranks run on {} hosts "
        "and must know where rank 0 is; try MASTER_ADDR=<host of rank 0>",
        out.world_size, out.num_nodes);
  }
  out.master_addr = *first;
}

}  // namespace

RankEnvironment detect_environment(const GetEnv& get) {
  const Reader env(get);
  RankEnvironment out;
  out.error_file = env.text("CONVOY_ERROR_FILE");
  if (out.error_file.empty()) out.error_file = env.text("TORCHELASTIC_ERROR_FILE");
  out.restart_count = std::max(env.number("TORCHELASTIC_RESTART_COUNT", 0).value_or(0),
                               env.number("CONVOY_ROUND", 0).value_or(0));
  out.job_id = env.text("TORCHELASTIC_RUN_ID");
  if (out.job_id == "none") out.job_id.clear();  // what torchrun says when nobody chose one
  if (env.has("CONVOY_JOB_START")) {
    out.job_id += "@" + env.text("CONVOY_JOB_START");
    parse_number(env.text("CONVOY_JOB_START"), out.job_start);
  }

  const bool in_step = inside_slurm_step(env);
  if (env.has("RANK")) {
    read_numbers(env, kTorch, out);
    if (env.text("CONVOY_LAUNCHER") == "convoy") {
      out.source = "convoy launch";
      // Hosts may have different numbers of ranks.
      out.num_nodes = env.number("GROUP_WORLD_SIZE", 1).value_or(out.num_nodes);
      parse_number(env.text("CONVOY_INTERRUPT_GRACE"), out.interrupt_grace);
      out.kept_memory = env.text("CONVOY_KEPT_MEMORY");
    } else if (env.has("TORCHELASTIC_RUN_ID")) {
      out.source = "torchrun";
      out.agent = agent_of(env.text("TORCHELASTIC_ERROR_FILE"));
      out.uses_agent_store = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    }
  } else if (env.has(kFlux.rank)) {
    read_numbers(env, kFlux, out);
  } else if (env.has(kLsf.rank)) {
    read_numbers(env, kLsf, out);
  } else if (env.has(kPals.rank)) {
    read_numbers(env, kPals, out);
  } else if (env.has(kOpenMpi.rank)) {
    read_numbers(env, kOpenMpi, out);
  } else if (env.has(kPmi.rank) && !(in_step && !env.has(kPmi.local_rank))) {
    read_numbers(env, kPmi, out);
  } else if (env.has(kMvapich.rank)) {
    read_numbers(env, kMvapich, out);
  } else if (in_step) {
    read_numbers(env, kSlurm, out);
    refine_slurm(env, out);
  } else if (env.number("WORLD_SIZE", 1).value_or(1) > 1) {
    // Taking it for a lone process would silently train WORLD_SIZE separate models.
    env.needed("RANK", 0, "WORLD_SIZE");
  }
  if (out.launched()) {
    find_master(env, out);
    out.job_name = name_of_job(env, out);
  }
  return out;
}

std::optional<std::string> slurm_endpoint(const GetEnv& get) {
  const Reader env(get);
  const auto host = first_slurm_host(env);
  const auto port = port_from_job(env, kSlurm.source);
  if (!host || !port) return std::nullopt;
  return fmt::format("{}:{}", *host, *port + kBesideMaster);
}

int copies_started(const GetEnv& get) {
  const Reader env(get);
  for (const Names& names : {kFlux, kLsf, kPals, kOpenMpi, kPmi, kMvapich}) {
    if (env.has(names.rank)) return env.number(names.world_size, 1).value_or(1);
  }
  return inside_slurm_step(env) ? env.number(kSlurm.world_size, 1).value_or(1) : 1;
}

const char* process_variable(const char* name) {
  return std::getenv(name);
}

RankEnvironment detect_environment() {
  return detect_environment(process_variable);
}

}  // namespace convoy::launch
