#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "cli/asked.h"
#include "cli/commands.h"
#include "cli/decimal.h"
#include "cli/memory_watch.h"
#include "cli/program.h"
#include "cli/tell_once.h"
#include "cli/typed.h"
#include "convoy/base/activity.h"
#include "convoy/base/early_error.h"
#include "convoy/base/error.h"
#include "convoy/base/json.h"
#include "convoy/base/out_of_memory.h"
#include "convoy/base/text.h"
#include "convoy/comm/device.h"
#include "convoy/launch/environment.h"
#include "convoy/launch/error_file.h"
#include "convoy/machine/limits.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/program.h"
#include "convoy/report/progress_output.h"

namespace {

using namespace convoy;

enum ExitCode { kOk = 0, kFailed = 1, kUsage = 2, kCommunication = 3, kInternal = 70 };

std::string lost_output(const std::error_code& why) {
  return fmt::format("[cli] cannot write to the standard output: {}", why.message());
}

/// Throws FileError if printed text did not arrive.
void check_output() {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw FileError(lost_output({errno, std::generic_category()}));
}

/// Message of a wheel of torch without kernels for this GPU, with advice.
std::string no_kernels(const std::string& line) {
  return line +
         "; this build of torch has no kernels for a GPU so new or so old; try another version "
         "(TORCH=VERSION ./dev build --gpu), or --device cpu";
}

std::string no_more_threads() {
  const auto limit = machine::read_limits().processes;
  return fmt::format(
      "[system] cannot start another thread or process: the system allows no more{}; try fewer "
      "--threads or ranks, or a higher limit (ulimit -u, pids.max of the container)",
      limit ? fmt::format(", ulimit -u = {}", *limit) : "");
}

/// Time for a paused reader to take the last message, before the program ends.
constexpr std::chrono::milliseconds kLastWords{1000};

/// Says what went wrong in one line, where the launcher finds it too; the first time only.
void tell(const char* kind, const std::string& text, int code, const std::vector<int>& missing) {
  static std::atomic_flag told;
  if (told.test_and_set()) return;
  std::signal(SIGPIPE, SIG_IGN);              // the exit code tells as much where nobody reads
  const auto message = without_tokens(text);  // which may quote what was typed
  launch::RankEnvironment environment;
  try {
    environment = launch::detect_environment();
  } catch (const std::exception&) {
  }
  auto who = environment.world_size > 1 ? fmt::format(" on rank {} of {} ({})", environment.rank,
                                                      environment.world_size, launch::host_name())
                                        : "";
  // Ranks that are threads of this process are named by what failed.
  if (const auto failed = noted_failure(); !failed.empty()) who = " on " + failed;
  const bool noted = launch::write_error_file(environment, kind, message, missing, code);
  if (::ftrylockfile(stdout) == 0) {  // else a reader who pauses keeps a thread waiting in there
    std::fflush(stdout);
    ::funlockfile(stdout);
  }
  // Names of files and tensors may hold anything.
  const auto line = fmt::format("convoy: error{}: {}", who, printable_lines(message));
  // A person's mistake is the same on all ranks: their launcher's report says it once.
  const bool mistake = code == kUsage || std::string_view(kind) == "FileError";
  if (!mistake || environment.world_size == 1) {
    report::show_progress(line + "\n", stderr);
  } else if (!noted || environment.source != "convoy launch") {
    cli::tell_once(message, line, environment);
  }
}

/// Tells as tell() does, then leaves at once: the threads of a broken collective must not hold the
/// process up.
[[noreturn]] void leave(const char* kind, const std::string& text, int code,
                        const std::vector<int>& missing = {}) {
  tell(kind, text, code, missing);
  report::finish_progress(kLastWords);
  std::_Exit(code);
}

/// Reports that another rank has ended while this rank's disk is still at work.
void tell_communication(const std::exception& any) {
  const auto* error = dynamic_cast<const CommunicationError*>(&any);
  if (error) tell("CommunicationError", error->what(), kCommunication, error->missing());
}

std::vector<std::string> long_options(const CLI::App& app) {
  std::vector<std::string> out;
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) out.push_back(name);
  }
  for (const auto* sub : app.get_subcommands({})) {
    auto more = long_options(*sub);
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

/// Names of the number of ranks in other launchers.
const std::vector<std::string> kRanks{"nproc_per_node", "nproc-per-node", "num_processes", "gpus",
                                      "world_size"};

/// Finds options that neither the command nor the configuration knows.
void refuse_unknown(const std::vector<std::string>& args, CLI::App& app, const OptionTable& table) {
  const auto known = long_options(*app.get_subcommand(args[0]));
  for (size_t i = 1; i < args.size() && args[i] != "--"; ++i) {
    if (args[i].rfind("--", 0) != 0) continue;
    auto name = args[i].substr(
        2, args[i].find('=') == std::string::npos ? std::string::npos : args[i].find('=') - 2);
    if (std::find(known.begin(), known.end(), name) != known.end() || name == "help") continue;
    const bool ranks = std::find(kRanks.begin(), kRanks.end(), name) != kRanks.end();
    auto hint = ranks ? ", did you mean 'nproc'?" : table.suggest(name, known);
    if (hint.empty()) hint = cli::of_other_families(name, table);
    fail<UsageError>("config", "unknown option --{}{}; see convoy {} --help", name, hint, args[0]);
  }
}

const CLI::App* command_of(const std::vector<std::string>& words, const CLI::App& app) {
  const CLI::App* at = &app;
  for (const auto& word : words) {
    const auto named = at->get_subcommands(
        [&](const CLI::App* below) { return !word.empty() && below->get_name() == word; });
    if (named.empty()) break;
    at = named.front();
  }
  return at;
}

/// Joins an option and a value that begins with "-" into one word.
std::vector<std::string> with_values(const std::vector<std::string>& args, const CLI::App& app) {
  const auto* command = command_of(args, app);
  std::vector<std::string> out;
  for (size_t i = 0; i < args.size(); ++i) {
    out.push_back(args[i]);
    if (args[i] == "--") {
      out.insert(out.end(), args.begin() + static_cast<std::ptrdiff_t>(i) + 1, args.end());
      break;
    }
    const auto* option =
        args[i].starts_with("--") ? command->get_option_no_throw(args[i]) : nullptr;
    const bool has_value = option != nullptr && option->get_items_expected_min() > 0;
    if (!has_value || i + 1 == args.size() || !args[i + 1].starts_with("-")) continue;
    const bool other =
        args[i + 1].starts_with("--") && command->get_option_no_throw(args[i + 1]) != nullptr;
    if (!other) out.back() += "=" + args[++i];
  }
  return out;
}

/// Typed command and sub-command, each with a space behind it. Refuses unknown ones.
std::string named_command(CLI::App& app, const std::vector<std::string>& typed) {
  std::string words;
  const CLI::App* at = &app;
  for (const auto& word : typed) {
    std::vector<std::string> known;
    const CLI::App* next = nullptr;
    for (const auto* below : at->get_subcommands({})) {
      if (below->get_name().empty()) continue;  // a group of options
      known.push_back(below->get_name());
      if (below->get_name() == word) next = below;
    }
    if (known.empty() || word.rfind("-", 0) == 0) break;
    if (next == nullptr) {
      fail<UsageError>("cli", "unknown command '{}{}'{}; expected one of {}", words, word,
                       did_you_mean(word, known), join(known));
    }
    words += word + " ";
    at = next;
  }
  return words;
}

struct OwnCommand {
  std::string name, help;
  std::function<int(const std::vector<std::string>& words)> work;
};

std::vector<OwnCommand>& own_commands() {
  static std::vector<OwnCommand> all;
  return all;
}

int run(int argc, char** argv) {
  CLI::App app{"Trains transformers on one device or many, from C++.", "convoy"};
  app.set_version_flag("--version", std::string("convoy ") + CONVOY_VERSION);
  app.require_subcommand(1);
  cli::RunCommand work;
  for (const auto& command : cli::kCommands) command.add(app, work);
  cli::read_decimals(app);
  for (const auto& own : own_commands()) {
    auto* command = app.add_subcommand(own.name, own.help)->prefix_command();
    command->callback([&own, &work, command] {
      work = [&own, words = command->remaining()] { return own.work(words); };
    });
  }
  // Last: commands that have none would take it over.
  app.footer(
      "Examples:\n  convoy data synthetic --output shop\n"
      "  convoy train --data.path shop --output_dir runs/shop --nproc 2\n"
      "  convoy predict runs/shop --rows 5\n  convoy plan runs/shop --ranks 8 --on h100-80\n"
      "convoy COMMAND --help has more.");

  std::vector<std::string> args(argv + 1, argv + argc);
  if (!args.empty() && args[0] == "help") {
    args.erase(args.begin());
    args.emplace_back("--help");
  }
  cli::take_help_all(args);
  if (cli::takes_config(args)) args = with_values(args, app);
  args = cli::with_lasting_inputs(cli::with_model_folder(std::move(args)));
  cli::set_typed_args(args);
  if (cli::takes_config(args)) {
    if (args[0] == "plan" || args[0] == "estimate") cli::refuse_kind_as_device(args);
    cli::Configured scratch;
    args = scratch.table.take_overrides(args);
    refuse_unknown(args, app, scratch.table);
  }
  const auto command = named_command(app, cli::typed_args());
  try {
    args = cli::keep_double_dash(std::move(args));
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp& help) {
    fmt::print("{}", cli::fitted(app.help()));
    return kOk;
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    fail<UsageError>("cli", "{}; see convoy {}--help", error.what(), command);
  }
  return work ? work() : kOk;
}

}  // namespace

void convoy::add_command(const std::string& name, const std::string& help,
                         std::function<int(const std::vector<std::string>& words)> work) {
  internal_check(cli::find_command(name).name.empty(), "cli", "there is a command {} already",
                 name);
  own_commands().push_back({name, help, std::move(work)});
}

[[noreturn]] void convoy::run_program(int argc, char** argv) {
  int code = kFailed;
  std::signal(SIGXFSZ, SIG_IGN);  // beyond `ulimit -f` a write is an error
  if (const char* file = std::getenv("CONVOY_STATUS_FILE")) publish_activity_to_file(file);
  hear_early_errors(tell_communication);
  try {
    cli::watch_memory();
    code = run(argc, argv);
    if (code == kOk) check_output();
  } catch (const UsageError& error) {
    leave("UsageError", error.what(), kUsage);
  } catch (const FileError& error) {
    leave("FileError", error.what(), kFailed);
  } catch (const NumericError& error) {
    leave("NumericError", error.what(), kFailed);
  } catch (const CommunicationError& error) {
    leave("CommunicationError", error.what(), kCommunication, error.missing());
  } catch (const InternalError& error) {
    leave("InternalError", error.what(), kInternal);
  } catch (const std::length_error&) {  // of a vector that no memory could hold
    leave("OutOfMemory", planner::out_of_memory(""), kFailed);
  } catch (const std::bad_alloc&) {
    leave("OutOfMemory", planner::out_of_memory(""), kFailed);
  } catch (const std::filesystem::filesystem_error& error) {
    leave("FileError",
          fmt::format("[files] cannot use {}: {}", error.path1().string(), error.code().message()),
          kFailed);
  } catch (const std::system_error& error) {
    if (::ferror_unlocked(stdout) != 0) leave("FileError", lost_output(error.code()), kFailed);
    const bool processes = error.code() == std::errc::resource_unavailable_try_again;
    leave("Exception", processes ? no_more_threads() : first_line(error.what()), kFailed);
  } catch (const Json::exception& error) {
    leave("Exception", "[json] " + json_trouble(error), kFailed);
  } catch (const std::exception& error) {
    const auto line = first_line(error.what());
    if (tells_of_memory(line)) {
      leave("OutOfMemory", planner::out_of_memory(line) + comm::device_peaks(), kFailed);
    }
    const bool lacks_kernels = line.find("no kernel image is available") != std::string::npos;
    leave("Exception", lacks_kernels ? no_kernels(line) : line, kFailed);
  }
  report::finish_progress(code == kOk ? std::chrono::milliseconds::max() : kLastWords);
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}
