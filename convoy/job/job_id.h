#pragma once

#include <string>

#include "convoy/job/job.h"

namespace convoy::job {

/// Adds to a job's id who started its ranks, where torchrun did on each host: `id@agent,agent`.
/// Without it, jobs of the same id, or of none, would pass for one. Collective.
void add_agents(Job& job);

/// Whether two ids are of starts of one job: some hosts may have left it, and others joined.
bool is_same_job(const std::string& a, const std::string& b);

}  // namespace convoy::job
