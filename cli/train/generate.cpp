#include "cli/commands.h"
#include "cli/launch/ranks.h"
#include "cli/program.h"

namespace convoy::cli {

void add_generate(CLI::App& app, RunCommand& run) {
  const auto open = [](const std::string& folder, const tasks::UseRun& use) {
    const Opened opened(folder);
    use(*opened.task, opened.run, opened.training);
  };
  tasks::add_generate(app, run,
                      {[](const auto& nproc) { return launch_ranks(nproc); }, open, tell});
}

}  // namespace convoy::cli
