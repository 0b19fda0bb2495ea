#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/launch/launch_hosts.h"
#include "cli/launch/launch_output.h"
#include "cli/typed.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/process.h"
#include "convoy/launch/supervise/agent.h"
#include "convoy/machine/cores.h"
#include "convoy/report/progress_output.h"

namespace convoy::cli {
namespace {

constexpr const char* kHelp =
    R"(Starts the same command as several ranks and monitors them: if one fails, the others are
stopped, and one report says which failed first and why.

  convoy launch -n 2 train run.toml --train.max_steps 100
  convoy launch -n gpu --log-dir logs train run.toml
  convoy launch -n 4 -- ./my_program --its-own options

What follows the command's first word is passed on unchanged. With -- any program can be
started; RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT are set in its environment, as
under torchrun.
On several hosts, run one `convoy launch` on each, with a shared secret:

  export CONVOY_TOKEN=...   # of at least 16 characters; or --token-file FILE
  convoy launch --nnodes 2 --rdzv-endpoint host0:29400 -n 8 train run.toml
  convoy launch --hostfile hosts train run.toml    # one line per host: node7 slots=8
  convoy launch --nnodes 2 --rdzv-endpoint login:29400 --serve-only   # on a host without ranks)";

struct Arguments {
  std::string num_ranks = "auto";
  std::string binding = "none";
  RankOutputArguments output;
  HostArguments hosts;
  std::string log_dir;
  launch::LaunchOptions options;
};

/// Throws UsageError for a word that is no option of launch.
[[noreturn]] void refuse_option(const CLI::App& command, const std::string& word) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  fail<UsageError>(
      "launch",
      "unknown option '{}'{}; the command's own options come after its first word; try "
      "convoy launch --help",
      word, did_you_mean(word, known));
}

/// Returns the words after launch's own options, as a program and its arguments.
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

  if (words.front().starts_with("-")) refuse_option(command, words.front());
  const auto commands = app.get_subcommands(
      [&](CLI::App* candidate) { return candidate->get_name() == words.front(); });
  if (words.front() == command.get_name()) {
    fail<UsageError>("launch", "launch cannot start launch; expected a command such as train");
  }
  if (!commands.empty() && !cli::find_command(words.front()).computes) {
    fail<UsageError>("launch", "{0} is a command of one process; try convoy {0} without launch",
                     words.front());
  }
  std::error_code error;
  const bool script = words.front().ends_with(".py") && ::access(words.front().c_str(), X_OK) != 0;
  if (script && command.count("--no-python") == 0 &&
      std::filesystem::is_regular_file(words.front(), error)) {
    words.insert(words.begin(), {"python3", "-u"});  // as torchrun does
  }
  if (!commands.empty()) {
    std::vector<std::string> program = launch::this_program();
    words.insert(words.begin(), program.begin(), program.end());
  }
  return words;
}

/// Warns where a launcher started this one once for each rank: a job for each is seldom meant.
void warn_of_copies() {
  const int copies = launch::copies_started();
  if (copies == 1) return;
  report::show_progress(
      fmt::format("[launch] warning: this is one of {0} launchers, and each starts a job of its "
                  "own; try --nnodes {0} for one job, --nnodes 1 if that is meant\n",
                  copies),
      stderr);
}

/// Shows what the launcher says.
void show(std::string_view text) {
  report::print_progress(text, stderr);
}

/// Throws UsageError where a word asks for ranks of a host that only serves.
void check_serve_only(const CLI::App& command) {
  const auto words = command.remaining();
  if (!words.empty() && words.front() != kDoubleDash && words.front().starts_with("-")) {
    refuse_option(command, words.front());
  }
  const auto refuse = [](const std::string& got) {
    fail<UsageError>(
        "launch", "--serve-only starts no ranks; got {}; try --nnodes N and --rdzv-endpoint alone",
        got);
  };
  if (!words.empty()) refuse("a command");
  constexpr std::array kOfRanks = {
      "nproc-per-node", "nproc",        "redirects", "tee",      "local-ranks-filter",
      "bind",           "numa-binding", "grace",     "hostfile", "threads-per-rank",
      "master-port",    "node-rank",    "no-python"};
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() == 0) continue;
    for (auto name : option->get_lnames()) {
      std::ranges::replace(name, '_', '-');  // as torchrun writes them
      if (std::ranges::find(kOfRanks, name) != kOfRanks.end()) refuse("--" + name);
    }
  }
}

/// Serves the rendezvous for the hosts that run the ranks.
int serve_only(const CLI::App& command, const Arguments& arguments) {
  check_serve_only(command);
  launch::LaunchOptions options = arguments.options;
  options.log_dir = arguments.log_dir;
  options.say = show;
  const auto hosts = arguments.hosts.read(options);
  if (!hosts) {
    fail<UsageError>("launch",
                     "--serve-only is for several hosts; try --nnodes of at least 2, as on them");
  }
  if (hosts->serves == false) {
    fail<UsageError>(
        "launch",
        "--serve-only serves the rendezvous, and --rdzv-conf is_host=false leaves that "
        "to another host; try one of them");
  }
  return launch::serve_rendezvous(options, *hosts);
}

int launch_command(CLI::App& app, const CLI::App& command, const Arguments& arguments) {
  if (arguments.hosts.serve_only) return serve_only(command, arguments);
  if (command.count("-n") > 0 && command.count("--nproc") > 0) {
    fail<UsageError>("launch", "-n and --nproc both give the number of ranks; try one of them");
  }
  launch::LaunchOptions options = arguments.options;
  auto hosts = arguments.hosts;
  const int slots = hosts.take_hostfile();
  const bool typed =
      command.count("-n") + command.count("--nproc") + command.count("--nproc_per_node") > 0;
  options.num_ranks = slots > 0 && !typed ? slots : machine::resolve_num_ranks(arguments.num_ranks);
  options.log_dir = arguments.log_dir;
  options.command = find_command(app, command);
  options.say = show;
  options.binding = machine::parse_binding(arguments.binding);
  arguments.output.check(options.num_ranks);
  if (arguments.output.given() && arguments.log_dir.empty()) {
    fail<UsageError>("launch",
                     "--redirects, --tee and --local-ranks-filter need a folder for the ranks' "
                     "output; try --log-dir logs");
  }
  options.tee = [&](int rank, int local_rank, bool is_error, std::string_view line) {
    if (!arguments.output.shows(local_rank, is_error)) return;
    report::print_progress(fmt::format("[rank {}] {}\n", rank, line), is_error ? stderr : stdout);
  };
  if (const auto others = hosts.read(options)) {
    return launch::run_ranks_of_host(options, *others);
  }
  if (!hosts.chosen()) warn_of_copies();
  return launch::run_ranks(options);
}

}  // namespace

void add_launch(CLI::App& app, RunCommand& run) {
  // CLI11 takes `train` in `launch train` for a second command of the program without this limit.
  app.require_subcommand(1);
  CLI::App* command = app.add_subcommand("launch", "Start a command as several ranks");
  const auto arguments = std::make_shared<Arguments>();
  command->footer(kHelp);
  command->prefix_command();
  add_option(*command, "-n,--nproc-per-node", arguments->num_ranks,
             "Number of ranks: a number, gpu (one per GPU), cpu (one per core), auto (GPUs if any, "
             "else cores; the default)");
  command->add_option("--nproc", arguments->num_ranks)->group("");
  add_option(*command, "--log-dir", arguments->log_dir,
             "Keep each rank's output in this folder and show it with the prefix [rank N]");
  add_option(*command, "-r,--redirects", arguments->output.redirects,
             "Keep in the log files only, do not show: 1 (stdout), 2 (stderr), 3 (both), or "
             "0:3,1:2 by local rank");
  add_option(*command, "-t,--tee", arguments->output.tee, "Show these in spite of --redirects");
  add_option(*command, "--local-ranks-filter", arguments->output.filter,
             "Show the output of these local ranks only, such as 0,2");
  add_option(*command, "--bind", arguments->binding,
             "Pin each rank to: cores (its own cores), numa (one NUMA node), none (all cores; the "
             "default)");
  add_option(*command, "--numa-binding", arguments->binding, "torchrun's name of --bind")
      ->group("");
  add_option(*command, "--max-restarts", arguments->options.max_restarts,
             "Restart all ranks after a failure, at most this often without getting further (0)");
  add_option(*command, "--threads-per-rank", arguments->options.threads_per_rank,
             "OMP_NUM_THREADS of a rank, unless that is set (1 when there are several ranks)");
  add_option(*command, "--grace", arguments->options.grace_seconds,
             "Seconds between SIGTERM and SIGKILL for the other ranks after a failure (5)");
  add_option(
      *command, "--interrupt-grace", arguments->options.interrupt_grace_seconds,
      "Seconds that ranks have to save after Ctrl-C, SIGTERM, SIGHUP or SIGUSR1 (30, under SLURM "
      "what the job has left)");
  add_option(*command, "--master-port", arguments->options.master_port,
             "Port on which rank 0 listens (a free one)");
  arguments->hosts.add_to(*command);
  command->add_flag("--no-python,--no_python")->group("");  // torchrun's: a .py file by itself
  command->callback([&app, &run, command, arguments] {
    run = [&app, command, arguments] { return launch_command(app, *command, *arguments); };
  });
}

}  // namespace convoy::cli
