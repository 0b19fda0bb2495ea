#pragma once

#include <optional>
#include <string>

#include "convoy/launch/environment.h"

namespace convoy::launch {

constexpr double kInterruptGrace = 30;  ///< seconds; where nobody tells more
/// Largest grace, in seconds, that is taken from a scheduler: ranks that hang must end some time.
constexpr double kMostSchedulerGrace = 900;

/// Seconds until a SLURM job ends, by `scontrol show job`'s text; nothing where it tells none.
std::optional<double> seconds_left(const std::string& scontrol, double now);

/// Seconds that ranks have to save after a signal: what a job of SLURM has left, less a few for the
/// launcher's own end, within kInterruptGrace and kMostSchedulerGrace. Elsewhere kInterruptGrace.
/// Asks `scontrol`, for three seconds at most.
double grace_of_scheduler(const GetEnv& get = process_variable);

}  // namespace convoy::launch
