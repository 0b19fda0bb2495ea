#include "cli/asked.h"

#include <utility>

#include "cli/commands.h"

namespace convoy::cli {

void add_config(CLI::App& command, std::string& config) {
  command.add_option("config", config, "TOML file of the run, or a folder with config.json");
}

void add_asked(CLI::App& command, std::string& config, int& ranks, const std::string& which_ranks) {
  add_config(command, config);
  command.add_option("--ranks", ranks, which_ranks)->check(at_least(1));
}

Asked ask_about(const std::string& config, bool tells) {
  auto configured = read_config(config);
  auto parallel = configured->training.parallel;
  parallel.only_asks = true;
  auto run = configured->task->prepare(parallel);
  configured->note_flags(run);
  if (tells) tell(*run.notes);
  return {std::move(configured), std::move(run)};
}

}  // namespace convoy::cli
