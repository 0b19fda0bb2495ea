#include "convoy/launch/supervise/agent.h"

#include <unistd.h>

#include <memory>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/network.h"
#include "convoy/launch/process.h"
#include "convoy/launch/signals.h"
#include "convoy/launch/supervise/agent_common.h"
#include "convoy/launch/supervise/kept_memory.h"
#include "convoy/launch/supervise/rank_processes.h"
#include "convoy/launch/supervise/restart_budget.h"
#include "convoy/launch/supervise/shown_command.h"

namespace convoy::launch {

int run_ranks(const LaunchOptions& options) {
  check(options);
  remove_old_logs(options, options.num_ranks, wall_time());
  OutputQueue output_queue(options);
  const PrivateFolder errors("convoy-launch");
  SignalCatcher signals;
  NodeInfo node;
  node.world_size = options.num_ranks;
  node.run_id = fmt::format("convoy-{}", ::getpid());
  node.job_start = wall_time();
  const auto memory =
      options.max_restarts > 0 ? keep_memory(errors.path() / "memory", output_queue) : nullptr;
  if (memory) node.kept_memory = std::filesystem::absolute(memory->folder()).string();
  int interrupted_by = 0;
  RestartBudget budget(options.max_restarts);
  for (;; ++node.round, ++node.restarts) {
    node.master_port = options.master_port > 0 ? options.master_port : free_port(node.master_addr);
    const auto logs = log_folder(options, node.round);
    RankProcesses ranks(options, output_queue, node, errors.make(node.round), logs);
    while (ranks.tick()) {
      while (const auto signal = signals.next()) {
        ranks.interrupt(*signal);
        if (interrupted_by == 0) interrupted_by = *signal;
      }
    }
    auto reports = ranks.reports();
    std::optional<FailureReport> failure;
    if (ranks.failed()) {
      failure.emplace(shown_command(options.command), std::move(reports));
      tell_failure(options, output_queue, *failure, logs);
    }
    if (interrupted_by != 0) {
      output_queue.say(fmt::format("[launch] stopped by {}; all ranks have ended\n",
                                   signal_name(interrupted_by)));
      return 128 + interrupted_by;
    }
    if (!failure) return 0;
    if (reader_left(*failure) || !budget.take(*failure)) return failure->exit_code();
    if (memory && memory->judge(budget.failed_again())) {
      output_queue.say(told_dropped(budget.failed_step()));
    }
    output_queue.say(fmt::format("[launch] starting all ranks again ({})\n", budget.to_text()));
  }
}

}  // namespace convoy::launch
