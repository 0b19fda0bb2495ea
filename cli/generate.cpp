#include "cli/commands.h"
#include "cli/program.h"
#include "cli/ranks.h"

namespace convoy::cli {

void add_generate(CLI::App& app, Run& run) {
  const auto open = [](const std::string& folder, const tasks::UseRun& use) {
    Configured configured;
    const auto opened = configured.task->open(folder, configured.table);
    configured.training.parallel = {};
    configured.table.take_overrides(typed_args());
    configured.table.check();
    use(*configured.task, opened, configured.training);
  };
  tasks::add_generate(app, run, {launch_ranks, open, tell});
}

}  // namespace convoy::cli
