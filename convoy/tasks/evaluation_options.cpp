#include "convoy/tasks/evaluation_options.h"

#include <fmt/format.h>
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Validators.hpp>

#include "convoy/base/text.h"

namespace convoy::tasks {

namespace {

/// Validator of the number of bootstrap samples: fewer have no 2.5 % percentile.
CLI::Validator samples_of_bootstrap() {
  return {[](const std::string& text) -> std::string {
            int64_t samples = 0;
            const bool good = parse_number(text, samples) &&
                              (samples == 0 || (samples >= 40 && samples <= 1'000'000));
            return good ? "" : fmt::format("got {}; expected 0, or 40 to 1000000", text);
          },
          "INT"};
}

}  // namespace

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
                  "samples of persons for 95 % intervals, 40 or more; 0 = none (session models)")
      ->check(samples_of_bootstrap());
  command.add_option("--bootstrap-seed,--bootstrap_seed", details.seed, "same seed, same samples")
      ->capture_default_str();
}

}  // namespace convoy::tasks
