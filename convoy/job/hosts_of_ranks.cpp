#include "convoy/job/hosts_of_ranks.h"

#include <ATen/ATen.h>

#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "convoy/comm/hosts.h"
#include "convoy/comm/to_host.h"

namespace convoy::job {

std::vector<int> hosts_of_ranks(const std::vector<int64_t>& machines,
                                const std::vector<int64_t>& local_ranks) {
  std::map<std::pair<int64_t, int64_t>, int> seen;  // ranks of a machine with a local rank
  std::map<std::pair<int64_t, int>, int> numbers;
  std::vector<int> out;
  for (size_t rank = 0; rank < machines.size(); ++rank) {
    const int turn = seen[{machines[rank], local_ranks[rank]}]++;
    const auto next = static_cast<int>(numbers.size());
    out.push_back(numbers.try_emplace({machines[rank], turn}, next).first->second);
  }
  return out;
}

std::vector<int> hosts_of_ranks(const comm::Group& all, int local_rank) {
  const auto machine = static_cast<int64_t>(std::hash<std::string>()(comm::own_host()));
  const auto told =
      all.all_gather(at::tensor({machine, static_cast<int64_t>(local_rank)}, at::kLong),
                     "find the ranks of each host")
          .view({all.size(), 2});
  std::vector<int64_t> machines, local_ranks;
  for (int64_t rank = 0; rank < all.size(); ++rank) {
    machines.push_back(comm::item<int64_t>(told[rank][0]));
    local_ranks.push_back(comm::item<int64_t>(told[rank][1]));
  }
  return hosts_of_ranks(machines, local_ranks);
}

}  // namespace convoy::job
