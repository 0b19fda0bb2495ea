#include "convoy/tasks/evaluation_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

namespace convoy::tasks {

void add_split_option(CLI::App& command, std::string& split) {
  command
      .add_option("--split", split,
                  "rows of the data to read: valid, or test, which convoy data sessions "
                  "--validation leave-last-two holds out")
      ->check(CLI::IsMember({"valid", "test"}))
      ->capture_default_str();
}

void add_detail_options(CLI::App& command, EvaluationDetails& details) {
  command
      .add_option_function<std::string>(
          "--metrics", [&](const std::string& which) { details.lists = which == "all"; },
          "accuracy, or all: also coverage, novelty, average popularity, diversity and serendipity "
          "of the recommended lists (session models)")
      ->check(CLI::IsMember({"accuracy", "all"}))
      ->default_str("accuracy");
  command.add_flag("--segments", details.segments,
                   "also the accuracy of new and old persons, short and long sessions, head and "
                   "tail items (session models)");
  command
      .add_option("--bootstrap", details.bootstrap,
                  "samples of persons for 95 % intervals; 0 = none (session models)")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  command.add_option("--bootstrap-seed,--bootstrap_seed", details.seed, "same seed, same samples")
      ->capture_default_str();
}

}  // namespace convoy::tasks
