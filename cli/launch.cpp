#include "cli/launch.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/agent.h"
#include "convoy/launch/devices.h"
#include "convoy/launch/process.h"

namespace convoy::cli {
namespace {

constexpr const char* kDoubleDash = "\x1f--";

constexpr const char* kHelp =
    R"(Starts the same command as several ranks on this host and looks after them: if one fails, the
others are stopped and one report says which failed first and why.

  convoy launch -n 2 train run.toml --train.max_steps 100
  convoy launch -n gpu --log-dir logs train run.toml
  convoy launch -n 4 -- ./my_program --its-own options

What follows the command's first word is passed on untouched. With -- any program can be
started; it finds RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT in its environment, as
under torchrun.
For several hosts start the ranks with torchrun, srun or mpirun: convoy understands all three.)";

struct Arguments {
  std::string num_ranks = "auto";
  std::string num_nodes = "1";
  std::string node_rank = "0";
  std::string master_addr = "127.0.0.1";
  std::string log_dir;
  launch::LaunchOptions options;
};

/// Adds an option under its name with dashes and, unlisted, with torchrun's underscores.
template <class T>
void add_option(CLI::App& command, const std::string& names, T& value, const std::string& help) {
  command.add_option(names, value, help);
  std::string longest = names.substr(names.rfind("--"));
  std::replace(longest.begin() + 2, longest.end(), '-', '_');
  if (!names.ends_with(longest)) command.add_option(longest, value)->group("");
}

void check_single_host(const Arguments& arguments) {
  const bool one_node = arguments.num_nodes == "1" || arguments.num_nodes == "1:1";
  if (!one_node || arguments.node_rank != "0") {
    fail<UsageError>("launch",
                     "--nnodes {} --node-rank {} asks for several hosts, but convoy launch starts "
                     "ranks on this one only; try torchrun --no-python, srun or mpirun in front of "
                     "the command",
                     arguments.num_nodes, arguments.node_rank);
  }
  if (arguments.master_addr != "127.0.0.1" && arguments.master_addr != "localhost") {
    fail<UsageError>("launch",
                     "--master-addr is '{}'; expected 127.0.0.1, for all ranks run on this host",
                     arguments.master_addr);
  }
}

/// The words after launch's own options, as a program and its arguments.
std::vector<std::string> find_command(CLI::App& app, const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  if (words.empty() || (words.size() == 1 && words.front() == kDoubleDash)) {
    fail<UsageError>("launch",
                     "nothing to start; expected a convoy command or -- PROGRAM; try "
                     "convoy launch -n 2 train run.toml");
  }
  const bool any_program = words.front() == kDoubleDash;
  if (any_program) words.erase(words.begin());
  for (std::string& word : words) {
    if (word == kDoubleDash) word = "--";
  }
  if (any_program) return words;

  if (words.front().starts_with("-")) {
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    fail<UsageError>(
        "launch",
        "unknown option '{}'{}; the command's own options come after its first word; try "
        "convoy launch --help",
        words.front(), did_you_mean(words.front(), known));
  }
  if (words.front() == command.get_name()) {
    fail<UsageError>("launch", "launch cannot start launch; expected a command such as train");
  }
  const auto commands = app.get_subcommands(
      [&](CLI::App* candidate) { return candidate->get_name() == words.front(); });
  if (!commands.empty()) {
    std::vector<std::string> program = launch::this_program();
    words.insert(words.begin(), program.begin(), program.end());
  }
  return words;
}

void print(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
  std::fflush(stream);
}

int launch_ranks(CLI::App& app, const CLI::App& command, const Arguments& arguments) {
  check_single_host(arguments);
  launch::LaunchOptions options = arguments.options;
  options.num_ranks = launch::resolve_num_ranks(arguments.num_ranks);
  options.log_dir = arguments.log_dir;
  options.command = find_command(app, command);
  options.say = [](std::string_view text) { print(stderr, text); };
  options.tee = [](int rank, bool is_error, std::string_view line) {
    print(is_error ? stderr : stdout, fmt::format("[rank {}] {}\n", rank, line));
  };
  return launch::run_ranks(options);
}

}  // namespace

std::vector<std::string> keep_double_dash(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "launch") {
    std::replace(arguments.begin(), arguments.end(), std::string("--"), std::string(kDoubleDash));
  }
  return arguments;
}

void add_launch(CLI::App& app, Run& run) {
  // Without this limit CLI11 takes `train` in `launch train` for a second command of the program.
  app.require_subcommand(1);
  CLI::App* command = app.add_subcommand("launch", "Start a command as several ranks on this host");
  const auto arguments = std::make_shared<Arguments>();
  command->footer(kHelp);
  command->prefix_command();
  add_option(*command, "-n,--nproc-per-node", arguments->num_ranks,
             "Number of ranks: a number, gpu (one each), cpu (one a core), auto (GPUs if any, else "
             "cores; the default)");
  command->add_option("--nproc", arguments->num_ranks)->group("");
  add_option(*command, "--log-dir", arguments->log_dir,
             "Keep each rank's output in this folder and show it with its rank in front");
  add_option(*command, "--max-restarts", arguments->options.max_restarts,
             "Start all ranks again after a failure, this often (0)");
  add_option(*command, "--threads-per-rank", arguments->options.threads_per_rank,
             "OMP_NUM_THREADS of a rank, unless that is set (1 when there are several ranks)");
  add_option(*command, "--grace", arguments->options.grace_seconds,
             "Seconds that the other ranks have to stop when one failed (5)");
  add_option(*command, "--master-port", arguments->options.master_port,
             "Port on 127.0.0.1 where rank 0 listens (a free one)");
  add_option(*command, "--nnodes", arguments->num_nodes, "Number of hosts; only 1 is possible");
  add_option(*command, "--node-rank", arguments->node_rank,
             "Number of this host; only 0 is possible");
  add_option(*command, "--master-addr", arguments->master_addr, "Only 127.0.0.1 is possible");
  for (const char* flag : {"--no-python", "--no_python", "--standalone"}) {
    command->add_flag(flag)->group("");  // torchrun's; here it goes without saying
  }
  command->callback([&app, &run, command, arguments] {
    run = [&app, command, arguments] { return launch_ranks(app, *command, *arguments); };
  });
}

}  // namespace convoy::cli
