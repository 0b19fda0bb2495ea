#include "convoy/launch/agent.h"

#include <unistd.h>

#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/agent_parts.h"
#include "convoy/launch/gang.h"
#include "convoy/launch/hosts/network.h"
#include "convoy/launch/process.h"
#include "convoy/launch/signals.h"

namespace convoy::launch {
int run_ranks(const LaunchOptions& options) {
  check(options);
  Speaker speaker(options);
  const PrivateFolder errors("convoy-launch");
  SignalCatcher signals;
  Place place;
  place.world_size = options.num_ranks;
  place.run_id = fmt::format("convoy-{}", ::getpid());
  place.job_start = wall_time();
  int interrupted_by = 0;
  for (;; ++place.round, ++place.restarts) {
    place.master_port =
        options.master_port > 0 ? options.master_port : free_port(place.master_addr);
    const auto logs = log_folder(options, place.round);
    Gang gang(options, speaker, place, errors.make(place.round), logs);
    while (gang.tick()) {
      while (const auto signal = signals.next()) {
        gang.interrupt(*signal);
        if (interrupted_by == 0) interrupted_by = *signal;
      }
    }
    auto reports = gang.reports();
    std::optional<FailureReport> failure;
    if (gang.failed()) {
      failure.emplace(join(options.command, " "), std::move(reports));
      tell_failure(options, speaker, *failure, logs);
    }
    if (interrupted_by != 0) {
      speaker.say(fmt::format("[launch] stopped by {}; all ranks have ended\n",
                              signal_name(interrupted_by)));
      return 128 + interrupted_by;
    }
    if (!failure) return 0;
    if (place.restarts >= options.max_restarts || !failure->worth_a_restart()) {
      return failure->exit_code();
    }
    speaker.say(fmt::format("[launch] starting all ranks again ({} of {} restarts)\n",
                            place.restarts + 1, options.max_restarts));
  }
}

}  // namespace convoy::launch
