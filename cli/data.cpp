#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/token_file.h"
#include "convoy/data/tools/inspect.h"
#include "convoy/data/tools/inspect_tokens.h"
#include "convoy/data/tools/repartition.h"
#include "convoy/data/window_folders.h"
#include "convoy/report/progress_line.h"
#include "convoy/tasks/task.h"

namespace convoy::cli {
namespace {

namespace fs = std::filesystem;
using report::line;

struct InspectFlags {
  std::string path;
  data::InspectOptions options;
  std::string column = data::kIdsColumn;
  bool json = false;
};

/// Files to inspect: of a folder, its data for training and for evaluation.
std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (const char* name : {"train.parquet", "valid.parquet", "test.parquet"}) {
    std::error_code code;
    if (fs::exists(fs::path(path) / name, code)) parts.push_back((fs::path(path) / name).string());
  }
  if (const auto window = data::last_window(path); parts.empty() && !window.empty()) {
    fail<UsageError>("data",
                     "{} is a folder of windows, whose other files are lists of ids; try convoy "
                     "data inspect {}",
                     path, window.string());
  }
  return parts.empty() ? std::vector<std::string>{path} : parts;
}

int run_inspect(const InspectFlags& flags) {
  Json all = Json::array();
  std::string text;
  for (const std::string& part : parts_of(flags.path)) {
    report::ProgressLine progress("reading " + part);
    const auto take = [&](const auto& report) {
      all.push_back(data::to_json(report));
      text += (text.empty() ? "" : "\n") + data::to_text(report);
    };
    if (const auto tokens = data::inspect_tokens(part, flags.column, progress.function())) {
      take(*tokens);
    } else {
      take(data::inspect(part, flags.options, progress.function()));
    }
  }
  fmt::print("{}", flags.json ? json_text(all) : printable_lines(text));
  return 0;
}

void add_inspect(CLI::App& app, RunCommand& run) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* sub = app.add_subcommand(
      "inspect", "Show what Parquet data or a token file contains and how it is split over ranks");
  sub->add_option("path", flags->path,
                  "a Parquet file, a folder, a glob pattern in quotes, or token ids of Megatron "
                  "(.idx), llm.c or "
                  "nanoGPT (.bin)")
      ->required();
  sub->add_option("--ranks", flags->options.ranks, "number of ranks")->capture_default_str();
  sub->add_option("--batch-size", flags->options.batch_size, "rows of one rank's batch")
      ->capture_default_str();
  sub->add_option("--column", flags->column, "column of ids in .arrow files and saved data sets")
      ->capture_default_str();
  sub->add_flag("--json", flags->json, "print a JSON list, one object per file");
  sub->footer("Example:\n  convoy data inspect ml100k --ranks 4");
  sub->callback([flags, &run] { run = [flags] { return run_inspect(*flags); }; });
}

int run_repartition(const data::RepartitionOptions& options) {
  report::ProgressLine progress("rewriting");
  const data::RepartitionReport report = data::repartition(options, progress.function());
  progress.wipe();
  line("rows", "{}", human_count(report.num_rows));
  line("row groups", "{} before, {} now, of {} to {} rows", human_count(report.old_groups),
       human_count(report.new_groups), human_count(report.min_group_rows),
       human_count(report.max_group_rows));
  line("wrote", "{} ({}, was {})",
       (options.output.empty() ? options.input : options.output).string(),
       human_bytes(report.new_bytes), human_bytes(report.old_bytes));
  for (const auto& change : report.changes) line("note", "{}", change);
  line("time", "{}", human_seconds(progress.seconds()));
  return 0;
}

void add_repartition(CLI::App& app, RunCommand& run) {
  auto options = std::make_shared<data::RepartitionOptions>();
  CLI::App* sub = app.add_subcommand("repartition", "Rewrite a Parquet file with other row groups");
  sub->add_option("file", options->input, "Parquet file")->required();
  sub->add_option("-o,--output", options->output, "file to write [replaces the input]");
  CLI::Option_group* how = sub->add_option_group("how", "exactly one of");
  how->add_option("--row-group-size", options->row_group_size, "rows per row group");
  how->add_option("--partitions", options->partitions, "number of row groups, equal in size");
  how->add_option("--for-ranks", options->ranks,
                  "a multiple of this many row groups, so that each rank gets as many rows");
  how->require_option(1);
  sub->footer("Example:\n  convoy data repartition ml100k/train.parquet --for-ranks 4");
  sub->callback([options, &run] { run = [options] { return run_repartition(*options); }; });
}

}  // namespace

void add_data(CLI::App& app, RunCommand& run) {
  CLI::App* data = app.add_subcommand("data", "Prepare and inspect training data");
  data->require_subcommand(1);
  tasks::add_data_commands(*data, run);
  add_inspect(*data, run);
  add_repartition(*data, run);
}

}  // namespace convoy::cli
