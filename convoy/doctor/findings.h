#pragma once

#include <functional>
#include <string>
#include <vector>

#include "convoy/base/json.h"
#include "convoy/machine/cgroup.h"
#include "convoy/machine/gpus.h"
#include "convoy/machine/host.h"
#include "convoy/machine/limits.h"

namespace convoy::doctor {

enum class Severity { Ok, Note, Warning, Problem };

/// One thing that was looked at, and what to do about it.
struct Finding {
  Severity severity = Severity::Ok;
  std::string about;   ///< "open files"
  std::string text;    ///< the state that was found
  std::string advice;  ///< the thing to try; "" when there is nothing to do
};

const char* to_text(Severity severity);
Json to_json(const std::vector<Finding>& findings);

/// Returns the worst of all; Ok when there is none.
Severity worst(const std::vector<Finding>& findings);

/// Cores: a quota or an affinity below what the machine has, NUMA.
std::vector<Finding> check_cpus(const machine::Host& host, const machine::CgroupLimits& cgroup,
                                const machine::Limits& limits);

/// Memory that is short or fenced, overcommit, huge pages.
std::vector<Finding> check_memory(const machine::Host& host, const machine::CgroupLimits& cgroup);

/// Limits of open files, processes, locked memory, /dev/shm and room for files.
std::vector<Finding> check_limits(const machine::CgroupLimits& cgroup,
                                  const machine::Limits& limits, const machine::Gpus& gpus);

/// Drivers and slots of GPUs.
std::vector<Finding> check_gpus(const machine::Gpus& gpus);

/// Variables that are set and change what convoy or a library below it does, with their meaning.
/// `get` is getenv or stands in for it; `threads` is what usable_cores() gave.
std::vector<Finding> check_variables(const std::function<const char*(const char*)>& get,
                                     int threads);

}  // namespace convoy::doctor
