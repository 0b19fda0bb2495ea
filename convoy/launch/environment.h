#pragma once

#include <functional>
#include <optional>
#include <string>

namespace convoy::launch {

/// Rank and number of this process in its job, as the program that started it set them. Without a
/// launcher it is rank 0 of 1.
struct RankEnvironment {
  int rank = 0;
  int local_rank = 0;  ///< on this host
  int world_size = 1;
  int local_world_size = 1;
  int node_rank = 0;
  int num_nodes = 1;
  std::string master_addr = "127.0.0.1";  ///< address at which rank 0 listens
  int master_port = 29500;
  /// "convoy launch", "torchrun", "environment" (RANK set by hand), "Flux", "LSF (jsrun)",
  /// "PBS (PALS)", "MPI (Open MPI)", "MPI (PMI)", "MPI (MVAPICH2)", "SLURM" or "none".
  std::string source = "none";
  std::string error_file;  ///< file in which a failing rank leaves its reason, or ""
  int restart_count = 0;   ///< number of earlier starts of the ranks, whatever the reason
  std::string job_id;      ///< equal over all starts, another for each job; "": nobody told
  double job_start = 0;    ///< of its first start, seconds since 1970; 0: nobody told
  std::string agent;  ///< torchrun on this host, equal over all starts that it makes; "": not told
  /// Folder of files in memory that outlive this process (launch::KeptMemory); "": none.
  std::string kept_memory;
  double interrupt_grace = 0;  ///< seconds from a signal to SIGKILL; 0: nobody told
  /// Name of the job, or of the step of a SLURM job, that these ranks are; "": nobody told.
  std::string job_name;
  bool uses_agent_store =
      false;  ///< the launcher already serves a store at master_addr:master_port

  bool launched() const { return source != "none"; }
};

/// Looks up an environment variable; null when it is not set.
using GetEnv = std::function<const char*(const char*)>;

/// Looks up an environment variable of this process; null when it is not set.
const char* process_variable(const char* name);

/// Reads what the launcher left in the environment, in this order: RANK (convoy launch, torchrun,
/// by hand), Flux, LSF's jsrun, PBS's PALS, Open MPI, PMI, MVAPICH2, SLURM. MASTER_ADDR and
/// MASTER_PORT win when they are set. Throws UsageError, naming the variable, when values are
/// missing or contradict each other.
RankEnvironment detect_environment(const GetEnv& get);

/// Reads what the launcher left in this process's environment.
RankEnvironment detect_environment();

/// host:port where the launchers of a SLURM job meet when nobody says another place: the first host
/// of its list and a port made of its number. Nothing outside of SLURM. Throws UsageError.
std::optional<std::string> slurm_endpoint(const GetEnv& get = process_variable);

/// Number of copies of this program that srun or mpirun started; 1 when neither did.
int copies_started(const GetEnv& get = process_variable);

}  // namespace convoy::launch
