#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/train/kept_run.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/conformance/comparison.h"
#include "convoy/report/table.h"

namespace convoy::cli {

namespace {

struct CompareOptions {
  std::string first, second;
  bool json = false;
};

std::vector<const conformance::Compared*> lines_of(const conformance::Comparison& comparison) {
  std::vector<const conformance::Compared*> out{&comparison.rows, &comparison.weights,
                                                &comparison.loss, &comparison.grad_norm};
  for (const auto& metric : comparison.metrics) out.push_back(&metric);
  return out;
}

std::string step_text(int64_t step) {
  return step > 0 ? std::to_string(step) : "-";
}

void print_table(const conformance::Comparison& comparison) {
  report::Table table;
  table.column("", report::Align::kLeft).column("steps").column("equal until");
  table.column("differs from").column("largest").column("", report::Align::kLeft);
  int64_t num_equal = 0;  // metrics
  for (const auto* line : lines_of(comparison)) {
    const bool is_metric = line->name.starts_with("eval_");
    if (is_metric && line->differs_from == 0) {
      ++num_equal;
      continue;
    }
    if (line->steps == 0) {
      table.row({line->name, "0", "-", "-", "-", "no step at which both logged it"});
      continue;
    }
    table.row({line->name, std::to_string(line->steps), step_text(line->equal_until),
               step_text(line->differs_from),
               line->largest.size > 0 ? fmt::format("{:.0e}", line->largest.size) : "-",
               line->detail});
  }
  if (num_equal > 0) {
    table.row({plural(num_equal, comparison.metrics.size() > static_cast<size_t>(num_equal)
                                     ? "other metric"
                                     : "metric"),
               "", "", "-", "-", "equal"});
  }
  fmt::print("{}\n", table.to_text());
}

/// First step at which anything but the rows differs; 0: none.
int64_t first_other_number(const conformance::Comparison& comparison) {
  int64_t out = 0;
  for (const auto* line : {&comparison.weights, &comparison.loss, &comparison.grad_norm}) {
    if (line->differs_from > 0 && (out == 0 || line->differs_from < out)) out = line->differs_from;
  }
  return out;
}

/// First step at which losses or gradient norms differ by more than rounding; 0: none.
int64_t first_beyond_rounding(const conformance::Comparison& comparison) {
  const auto a = comparison.loss.beyond_from, b = comparison.grad_norm.beyond_from;
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

/// Comparison of what both logged, in a sentence.
std::string numbers_text(const conformance::Comparison& comparison) {
  const auto& rows = comparison.rows;
  if (rows.differs_from > 0) {
    const auto equal =
        rows.equal_until > 0 ? fmt::format("equal ones up to step {}, ", rows.equal_until) : "";
    return fmt::format("The runs read other rows: {}others at step {}.", equal, rows.differs_from);
  }
  if (!comparison.anything) {
    return "There is no step at which both runs logged a number of the training, so nothing was "
           "compared; try --logging_steps 1 in both.";
  }
  const std::string rows_text =
      rows.steps > 0 ? "read the same rows" : "do not both say which rows they read";
  if (comparison.same_bits) {
    conformance::Gap metrics;  // ranks add them up in another order
    for (const auto& one : comparison.metrics) metrics.raise(one.largest.size, one.name);
    if (metrics.size == 0) {
      return fmt::format("The runs {}, and every number that both logged is equal, bit for bit.",
                         rows_text);
    }
    return fmt::format(
        "The runs {}, and every number that both logged of the training is equal, bit for bit; "
        "metrics of evaluations differ by up to {:.0e} ({}).",
        rows_text, metrics.size, metrics.where);
  }
  if (comparison.to_rounding) {
    return fmt::format(
        "The runs {} and agree to rounding: losses and gradient norms are within the tolerances of "
        "docs/verify.md.",
        rows_text);
  }
  const auto from = first_other_number(comparison);
  const auto beyond = first_beyond_rounding(comparison);
  if (beyond == 0 || beyond <= from) {
    return fmt::format("The runs {}, but compute other numbers{}.", rows_text,
                       from > 0 ? fmt::format(" from step {} on", from) : "");
  }
  return fmt::format(
      "The runs {}. From step {} on they differ to rounding, but from step {} on they compute "
      "other numbers.",
      rows_text, from, beyond);
}

std::string verdict(const conformance::Comparison& comparison) {
  auto out = numbers_text(comparison);
  if (!comparison.shorter.empty()) out += " " + comparison.shorter;
  if (comparison.other_means > 0 && comparison.anything) {
    out += fmt::format(
        " {} not compared: the runs logged means over other steps; try the same --logging_steps.",
        comparison.other_means == 1 ? "One loss was"
                                    : fmt::format("{} losses were", comparison.other_means));
  }
  return out;
}

Json to_json(const conformance::Comparison& comparison) {
  Json out{{"same_bits", comparison.same_bits},     {"to_rounding", comparison.to_rounding},
           {"ended_early", comparison.ended_early}, {"other_means", comparison.other_means},
           {"verdict", verdict(comparison)},        {"other_options", comparison.other_options}};
  for (const auto* line : lines_of(comparison)) {
    out["numbers"].push_back(
        {{"name", line->name},
         {"steps", line->steps},
         {"equal_until", line->equal_until},
         {"differs_from", line->differs_from},
         {"beyond_rounding_from", line->beyond_from},
         {"largest", std::isfinite(line->largest.size) ? Json(line->largest.size) : Json()},
         {"detail", line->detail}});
  }
  return out;
}

int run_compare(const CompareOptions& options) {
  const auto read = [](const std::string& folder) {
    return conformance::read_run_log(folder, newest_options(folder));
  };
  const auto first = read(options.first), second = read(options.second);
  const auto comparison = conformance::compare(first, second);
  if (options.json) {
    fmt::print("{}\n", to_json(comparison).dump(2));
  } else {
    print_table(comparison);
    fmt::print("{}", wrap(verdict(comparison), 0));
    if (!comparison.other_options.empty()) {
      fmt::print("\nOptions that differ:\n");
      for (const auto& text : comparison.other_options) fmt::print("  {}\n", text);
    }
    for (const auto* log : {&first, &second}) {
      if (!log->options.empty()) continue;
      fmt::print(
          "\n{}",
          wrap(fmt::format("{} saved nothing, so its options are not known.", log->folder), 0));
    }
    fmt::print("\n");
  }
  return comparison.agrees() ? 0 : 1;
}

}  // namespace

void add_compare(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<CompareOptions>();
  auto* command =
      app.add_subcommand("compare", "Find the first step at which two runs differ, and in what");
  command->add_option("run", options->first, "output folder of a run")->required();
  command->add_option("other", options->second, "output folder of another one")->required();
  command->add_flag("--json", options->json, "print JSON");
  command->footer(
      "Compares the logs of two runs: the rows that they read, checksums of their weights, losses, "
      "gradient norms and metrics, at the steps at which both logged them. The exit code is 1 "
      "where "
      "they differ by more than rounding, have no step in common, or one ended early. Finer steps: "
      "train with --logging_steps 1 --sum_steps "
      "1.\n"
      "Examples:\n"
      "  convoy compare runs/before runs/after\n"
      "  convoy compare runs/one_device runs/four_ranks --json\n");
  command->callback([options, &run] { run = [options] { return run_compare(*options); }; });
}

}  // namespace convoy::cli
