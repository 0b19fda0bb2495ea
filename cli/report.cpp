#include <CLI/App.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/report/run_page.h"

namespace convoy::cli {

namespace {

struct ReportOptions {
  std::vector<std::string> folders;
  std::string output = "report.html";
  std::string picture;
  std::string trace;
};

/// Gives runs names that differ: folders of equal names get those above, too.
void tell_apart(std::vector<report::RunRecord>& runs) {
  std::set<std::string> names;
  for (const auto& run : runs) names.insert(run.name);
  if (names.size() == runs.size()) return;
  for (auto& run : runs) run.name = run.folder;
}

/// Throws UsageError where `output` is another file than an earlier report.
void check_output(const std::string& output) {
  std::error_code error;
  const bool is_file = output != "-" && std::filesystem::is_regular_file(output, error);
  if (!is_file || std::filesystem::file_size(output, error) == 0) return;
  constexpr std::string_view kBegin = "<!doctype html";
  std::string begin(kBegin.size(), '\0');
  std::ifstream(output).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin == kBegin) return;
  fail<UsageError>("cli", "--output {} is there and is no report; try another file", output);
}

/// Checkpoints on the run's branch by step: the one that it would resume from comes last.
std::vector<std::filesystem::path> checkpoints_of(const std::filesystem::path& run) {
  const checkpoint::Line line(run);
  std::vector<std::filesystem::path> out;
  for (const auto& [step, path] : line.checkpoints()) out.push_back(path);
  return out;
}

int make_report(const ReportOptions& options) {
  check_output(options.output);
  std::vector<report::RunRecord> runs;
  for (const auto& folder : options.folders) {
    try {
      runs.push_back(report::read_run(folder, checkpoints_of(folder)));
    } catch (const FileError& error) {  // of many the others are worth a page
      if (options.folders.size() == 1) throw;
      tell({fmt::format("warning: left out: {}", error.what())});
    }
  }
  if (runs.empty()) fail<FileError>("cli", "none of these folders is that of a run");
  tell_apart(runs);
  report::PageExtras extras;
  if (!options.picture.empty()) extras.picture = read_regular_file(options.picture);
  if (!options.trace.empty()) {
    extras.collectives = report::traced_collectives(formats::read_trace(options.trace));
    if (extras.collectives.empty()) {
      tell({fmt::format("warning: {} has no collective in a whole step", options.trace)});
    }
  }
  if (!extras.picture.empty() && !trim(extras.picture).starts_with("<svg")) {
    fail<UsageError>("cli",
                     "--picture {} is no SVG; try convoy schedule --trace FILE --plot FILE.svg",
                     options.picture);
  }
  const auto page = report::run_page(runs, extras);
  if (options.output == "-") {
    std::fwrite(page.data(), 1, page.size(), stdout);
    return 0;
  }
  write_file(options.output, page);
  fmt::print("wrote {} of {}; open it in a browser\n", options.output,
             plural(std::ssize(runs), "run"));
  return 0;
}

}  // namespace

void add_report(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<ReportOptions>();
  auto* command = app.add_subcommand("report", "Show runs side by side in an HTML page");
  command->add_option("folders", options->folders, "output folders of runs, finished or not")
      ->required();
  command->add_option("--output", options->output,
                      "the HTML file to write [report.html]; - for the standard output");
  command->add_option("--picture", options->picture,
                      "a picture (SVG) to show, such as a step over its simulation");
  command->add_option("--trace", options->trace,
                      "a trace of convoy train, whose collectives are listed by size");
  command->footer(
      "The page needs no network. It shows curves, memory by kind, results, plans beside "
      "measurements, options that differ, and messages.\n"
      "Examples:\n  convoy report runs/first\n  convoy report runs/* --output runs.html\n"
      "  convoy schedule run.toml --trace trace.json --plot step.svg && convoy report runs/first "
      "--picture step.svg --trace trace.json\n");
  command->callback([options, &run] { run = [options] { return make_report(*options); }; });
}

}  // namespace convoy::cli
