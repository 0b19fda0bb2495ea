#pragma once

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>
#include <cstdint>
#include <functional>

// One file per command: each adds its sub-command to the program and stores its work in `run`.
namespace convoy::cli {

using Run = std::function<int()>;

/// For an option that is a whole number.
CLI::Validator at_least(int64_t low);

void add_train(CLI::App& app, Run& run);
void add_eval(CLI::App& app, Run& run);
void add_predict(CLI::App& app, Run& run);
void add_generate(CLI::App& app, Run& run);
void add_data(CLI::App& app, Run& run);
void add_checkpoint(CLI::App& app, Run& run);
void add_launch(CLI::App& app, Run& run);
void add_estimate(CLI::App& app, Run& run);
void add_schedule(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_doctor(CLI::App& app, Run& run);

}  // namespace convoy::cli
