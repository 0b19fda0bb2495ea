#include "cli/asked.h"

#include <filesystem>
#include <utility>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/planner/time/cluster.h"

namespace convoy::cli {

void add_config(CLI::App& command, std::string& config) {
  command.add_option("config", config,
                     "TOML file of the run, a run's folder, or a folder with config.json");
}

void add_asked(CLI::App& command, std::string& config, int& ranks, const std::string& which_ranks) {
  add_config(command, config);
  command.add_option("--ranks", ranks, which_ranks)->check(at_least(1));
}

void refuse_kind_as_device(const std::vector<std::string>& args) {
  for (size_t n = 1; n < args.size(); ++n) {
    std::string value;
    if (args[n].starts_with("--device=")) value = args[n].substr(args[n].find('=') + 1);
    if (args[n - 1] == "--device") value = args[n];
    for (const auto& known : planner::known_devices()) {
      if (known.name != value) continue;
      fail<UsageError>("cli", "--device {} is a kind of device elsewhere; try --on {}", value,
                       value);
    }
  }
}

void check_place(const std::string& option, const std::string& file, const std::string& config,
                 const std::string& example) {
  if (file.empty()) return;
  std::error_code error;
  const std::filesystem::path place(file);
  if (std::filesystem::is_directory(place, error)) {
    fail<UsageError>("cli", "{} {} is a folder; try {}/{}", option, file, file, example);
  }
  const auto folder = place.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) {
    fail<UsageError>("cli", "{} {}: there is no folder {}", option, file, folder.string());
  }
  if (std::filesystem::equivalent(place, config, error)) {
    fail<UsageError>("cli", "{} {} is the run itself; try another file", option, file);
  }
}

Asked ask_about(const std::string& config, const AskOptions& options) {
  auto configured = read_config(config);
  auto parallel = configured->training.parallel;
  parallel.only_asks = true;
  parallel.data_may_be_random = !options.needs_data;
  auto run = configured->task->prepare(parallel);
  configured->note_flags(run);
  configured->training.check(run.train_data != nullptr, run.valid_data != nullptr);
  if (options.tells) tell(*run.notes);
  return {std::move(configured), std::move(run)};
}

}  // namespace convoy::cli
