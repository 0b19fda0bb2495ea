#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <functional>
#include <string_view>

// One file per command, and a line of the table: each adds its sub-command to the program and
// stores its work in `run`.
namespace convoy::cli {

using RunCommand = std::function<int()>;

/// Validator of an option that is a whole number of at least `low`.
CLI::Validator at_least(int64_t low);
/// Validator of an option that is a number above 0.
CLI::Validator above_zero();
/// Validator that refuses an empty text, for an option that names something.
CLI::Validator not_empty();

using AddCommand = void(CLI::App& app, RunCommand& run);
AddCommand add_train, add_eval, add_predict, add_generate, add_export, add_data, add_checkpoint,
    add_launch, add_estimate, add_plan, add_profile, add_schedule, add_verify, add_compare,
    add_replay, add_report, add_bench, add_doctor, add_completion, add_tune;
void add_bench_collectives(CLI::App& bench, RunCommand& run);
void add_bench_plan(CLI::App& bench, RunCommand& run);
void add_bench_batch(CLI::App& bench, RunCommand& run);
void add_bench_axes(CLI::App& bench, RunCommand& run);

/// Inputs of a command: a run's options, or a trained model and options.
enum class Reads { Nothing, Options, Model };

struct CommandEntry {
  std::string_view name;
  AddCommand* add;
  Reads reads = Reads::Nothing;
  std::string_view input = "";              ///< option with data that may come through a pipe
  bool computes = reads != Reads::Nothing;  ///< with several threads
  bool takes_folder = false;                ///< with config.json, in the place of a run's file
};

/// Table of all commands, in the order of --help. It is a constant, since before_libraries.cpp
/// reads it before any constructor has run.
inline constexpr CommandEntry kCommands[] = {
    {"train", add_train, Reads::Options},
    {"eval", add_eval, Reads::Model, "--data"},
    {"predict", add_predict, Reads::Model, "--data"},
    {"generate", add_generate, Reads::Model, "--file"},
    {"export", add_export, Reads::Model, "--data"},
    {"data", add_data},
    {"checkpoint", add_checkpoint},
    {"launch", add_launch},
    {"estimate", add_estimate, Reads::Options, "", true, /*takes_folder=*/true},
    {"plan", add_plan, Reads::Options, "", true, /*takes_folder=*/true},
    {"profile", add_profile, Reads::Options, "", true, /*takes_folder=*/true},
    {"schedule", add_schedule, Reads::Options},
    {"verify", add_verify, Reads::Options},
    {"compare", add_compare},
    {"replay", add_replay, Reads::Model},
    {"report", add_report},
    {"tune", add_tune, Reads::Options},
    {"bench", add_bench, Reads::Options},
    {"doctor", add_doctor, Reads::Nothing, "", /*computes=*/true},
    {"completion", add_completion},
};

/// Returns the command of this name; where there is none, one without a name, which reads nothing.
constexpr CommandEntry find_command(std::string_view name) {
  for (const CommandEntry& command : kCommands) {
    if (command.name == name) return command;
  }
  return {};
}

}  // namespace convoy::cli
