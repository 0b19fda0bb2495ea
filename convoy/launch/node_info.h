#pragma once

#include <string>

namespace convoy::launch {

/// Place of this host's ranks in the whole job, for one start of them.
struct NodeInfo {
  int node_rank = 0;
  int num_nodes = 1;
  int first_rank = 0;  ///< of this host; the others follow
  int world_size = 1;
  std::string master_addr = "127.0.0.1";  ///< address at which rank 0 listens
  int master_port = 29500;
  std::string interface =
      "lo";          ///< of the network between the hosts, for Gloo and NCCL; "": theirs
  int round = 0;     ///< number of earlier starts of the ranks
  int restarts = 0;  ///< of these, because a rank failed
  std::string run_id;
  std::string kept_memory;  ///< folder of launch::KeptMemory on this host; "": none
  double job_start = 0;     ///< begin of the first round, seconds since 1970
};

}  // namespace convoy::launch
