#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"
#include "convoy/launch/stop_signal.h"

namespace convoy::cli {

void add_export(CLI::App& app, RunCommand& run) {
  const auto open = [](const std::string& folder, const tasks::UseRun& use) {
    launch::leave_on_stop_signals();
    const Opened opened(folder);
    use(*opened.task, opened.run, opened.training);
  };
  tasks::add_export(app, run, {[](const auto& nproc) { return launch_ranks(nproc); }, open, tell});
}

}  // namespace convoy::cli
