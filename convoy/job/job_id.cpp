#include "convoy/job/job_id.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "convoy/base/text.h"

namespace convoy::job {
namespace {

std::set<std::string> agents_of(const Job& job) {
  const auto& own = job.environment.agent;
  if (job.world().size() == 1) return {own};
  auto word = at::zeros({1}, at::kLong);
  std::memcpy(word.data_ptr<int64_t>(), own.data(), std::min(own.size(), sizeof(int64_t)));
  const auto all = job.world().all_gather(word, "gather the launchers of ranks").contiguous();
  std::set<std::string> agents;
  for (int64_t rank = 0; rank < all.numel(); ++rank) {
    const auto* text = reinterpret_cast<const char*>(all.data_ptr<int64_t>() + rank);
    agents.emplace(text, ::strnlen(text, sizeof(int64_t)));
  }
  return agents;
}

/// Splits an id into the part without agents, and the agents.
std::pair<std::string, std::set<std::string>> parts_of(const std::string& id) {
  const auto at = id.rfind('@');
  if (at == std::string::npos) return {id, {}};
  std::set<std::string> agents;
  std::istringstream text(id.substr(at + 1));
  for (std::string agent; std::getline(text, agent, ',');) agents.insert(agent);
  return {id.substr(0, at), agents};
}

}  // namespace

void add_agents(Job& job) {
  if (job.environment.source != "torchrun") return;
  auto agents = agents_of(job);
  agents.erase("");
  if (agents.empty()) return;
  job.environment.job_id += "@" + join(std::vector<std::string>(agents.begin(), agents.end()), ",");
}

bool is_same_job(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto [name, agents] = parts_of(a);
  const auto [other_name, others] = parts_of(b);
  return name == other_name && std::any_of(agents.begin(), agents.end(), [&](const auto& agent) {
           return others.contains(agent);
         });
}

}  // namespace convoy::job
