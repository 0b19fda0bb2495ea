#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "cli/ranks.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/data/dataset.h"
#include "convoy/prepare/items.h"
#include "convoy/tasks/session/recommend.h"
#include "convoy/tasks/session/task.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

struct PredictOptions {
  std::string folder;
  std::string data;
  std::string output;
  int64_t top_k = 10;
  int64_t rows = 0;
  bool exclude_seen = false;
  std::optional<int64_t> nproc;
};

/// items.parquet of the run, beside the weights or in the folder above.
prepare::ItemNames item_names(const fs::path& folder) {
  for (const auto& place : {folder, folder / ".."}) {
    if (fs::exists(place / "items.parquet"))
      return prepare::ItemNames::load(place / "items.parquet");
  }
  return {};
}

/// users.parquet beside the data: the file, or the folder or pattern of files.
fs::path users_file(const fs::path& data) {
  return (fs::is_directory(data) ? data : data.parent_path()) / "users.parquet";
}

/// Refuses to write over what is read.
void keep_inputs(const PredictOptions& options, const std::string& data) {
  std::vector<fs::path> inputs{users_file(data)};
  const data::Dataset dataset(data);
  for (const auto& part : dataset.files()) inputs.push_back(part.path());
  for (const auto& place : {fs::path(options.folder), fs::path(options.folder) / ".."}) {
    inputs.push_back(place / "items.parquet");
  }
  for (const auto& input : inputs) {
    if (!same_file(input, options.output)) continue;
    fail<UsageError>("cli", "--output {} would replace the input {}; try another name",
                     options.output, input.string());
  }
}

void show(const tasks::Recommendation& row, const tasks::RecommendationNames& names) {
  std::vector<std::string> before;
  for (const int64_t id : row.session) before.push_back(names.items.label(id));
  const bool cut = row.session_length > std::ssize(row.session);
  const auto user = row.owner ? fmt::format(", user {}", names.users.raw_id(*row.owner)) : "";
  fmt::print("{}\n", wrap(fmt::format("row {}{}, after {}{}", row.row, user, cut ? "... " : "",
                                      fmt::join(before, " | ")),
                          2));
  for (size_t i = 0; i < row.ids.size(); ++i) {
    fmt::print("  {:>3}. {:<12} {:>9.4f}  {}\n", i + 1, names.items.raw_id(row.ids[i]),
               row.scores[i], names.items.name(row.ids[i]));
  }
}

int run_predict(const PredictOptions& options) {
  if (options.top_k < 1) {
    fail<UsageError>("cli", "--top-k = {}; expected at least 1", options.top_k);
  }
  if (auto code = launch_ranks(options.nproc)) return *code;
  Configured configured;
  auto* task = dynamic_cast<tasks::SessionTask*>(configured.task.get());
  if (task == nullptr)
    fail<UsageError>(
        "cli",
        "predict recommends items with session models; got a language model; try convoy eval");
  auto run = task->open(options.folder, configured.table);
  configured.training.parallel = {};
  configured.table.take_overrides(typed_args());
  configured.table.check();
  const auto [file, data] = task->prediction_data(options.data);
  if (!data) fail<UsageError>("cli", "the run names no evaluation data; try --data FILE.parquet");
  const bool to_file = !options.output.empty() && options.output != "-";
  if (to_file) keep_inputs(options, file);
  auto job = train::join_job(configured.training.parallel);
  tasks::RecommendationNames names;
  std::unique_ptr<tasks::RecommendationWriter> writer;
  if (job.is_main()) {
    names = {item_names(options.folder), prepare::ItemNames::load(users_file(file))};
    if (!options.output.empty()) writer = tasks::open_writer(options.output, names);
  }
  train::Trainer trainer(run.factory, configured.training, nullptr, nullptr, job, run.fill);

  int64_t rows = 0;
  size_t fewest = SIZE_MAX, most = 0;  // items of a row: sessions may have seen the others
  tasks::recommend(trainer, *data,
                   {task->model().item_feature, task->owner(), options.top_k, options.exclude_seen},
                   [&](const tasks::Recommendation& row) {
                     if (options.rows > 0 && row.row >= options.rows) return;
                     writer ? writer->write(row) : show(row, names);
                     ++rows;
                     fewest = std::min(fewest, row.ids.size());
                     most = std::max(most, row.ids.size());
                   });
  if (writer) writer->finish();
  if (!writer || !to_file) return 0;
  fmt::print("wrote {} ({} row{}, {} item{} each)\n", options.output, rows, rows == 1 ? "" : "s",
             fewest < most ? fmt::format("{} to {}", fewest, most) : fmt::format("{}", most),
             most == 1 ? "" : "s");
  return 0;
}

}  // namespace

void add_predict(CLI::App& app, Run& run) {
  auto options = std::make_shared<PredictOptions>();
  auto* command = app.add_subcommand("predict", "Recommend the next items of sessions");
  command->add_option("folder", options->folder, "output folder of a run, or a checkpoint in it")
      ->required();
  command->add_option("--data", options->data,
                      "Parquet of sessions; default: the run's evaluation data");
  command->add_option("--top-k", options->top_k, "items per session");
  command->add_option("--rows", options->rows, "only the first rows; 0 = all");
  command->add_flag("--exclude-seen", options->exclude_seen,
                    "do not recommend what the session holds already");
  command->add_option("--output", options->output,
                      "write .csv, .jsonl or .parquet instead of printing; -: CSV to the standard "
                      "output");
  command->add_option("--nproc", options->nproc, "start this many ranks on this host");
  command->footer(
      "Raw ids of items come from items.parquet, which the run keeps beside its weights, those of "
      "users from users.parquet beside the data.\n"
      "Examples:\n  convoy predict runs/first --top-k 10 --rows 5\n"
      "  convoy predict runs/first --data today.parquet --output top.parquet --nproc 2\n"
      "  convoy predict runs/first --output - | head\n");
  command->callback([options, &run] { run = [options] { return run_predict(*options); }; });
}

}  // namespace convoy::cli
