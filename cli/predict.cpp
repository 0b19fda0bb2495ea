#include <ATen/Functions.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/program.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/data/dataset.h"
#include "convoy/data/items.h"
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
};

/// items.parquet of the run, beside the weights or in the folder above.
data::ItemNames item_names(const fs::path& folder) {
  for (const auto& place : {folder, folder / ".."}) {
    if (fs::exists(place / "items.parquet")) return data::ItemNames::load(place / "items.parquet");
  }
  return {};
}

/// Refuses to write over what is read.
void keep_inputs(const PredictOptions& options, const std::string& data) {
  std::vector<fs::path> inputs;
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

void show(const tasks::Recommendation& row, const data::ItemNames& names) {
  constexpr size_t kShown = 3;
  std::vector<std::string> before;
  const size_t start = row.session.size() - std::min(kShown, row.session.size());
  for (size_t i = start; i < row.session.size(); ++i) before.push_back(names.label(row.session[i]));
  fmt::print("row {}, after {}{}\n", row.row, start > 0 ? "... " : "", fmt::join(before, " | "));
  for (size_t i = 0; i < row.ids.size(); ++i) {
    fmt::print("  {:>3}. {:<12} {:>9.4f}  {}\n", i + 1, names.raw_id(row.ids[i]), row.scores[i],
               names.name(row.ids[i]));
  }
}

int run_predict(const PredictOptions& options) {
  Configured configured;
  auto* task = dynamic_cast<tasks::SessionTask*>(configured.task.get());
  if (task == nullptr) fail<UsageError>("cli", "predict is for session models; got another task");
  auto run = task->open(options.folder, configured.table);
  configured.training.parallel = {};
  configured.training.parallel.strategy = "single";
  configured.table.take_overrides(typed_args());
  configured.table.check();
  task->arguments().data.truncation = "keep_last";  // what follows a session follows its end
  const auto [name, data] = task->evaluation_data(options.data);
  if (!data) fail<UsageError>("cli", "the run names no evaluation data; try --data FILE.parquet");
  if (options.top_k < 1) {
    fail<UsageError>("cli", "--top-k = {}; expected at least 1", options.top_k);
  }
  auto names = item_names(options.folder);
  auto job = train::join_job(configured.training.parallel);
  train::Trainer trainer(run.factory, configured.training, nullptr, nullptr, job);
  trainer.load_weights(options.folder);

  if (!options.output.empty()) keep_inputs(options, name);
  std::unique_ptr<tasks::RecommendationWriter> writer;
  if (!options.output.empty()) writer = tasks::open_writer(options.output, names);
  int64_t rows = 0;
  size_t fewest = SIZE_MAX, most = 0;  // items of a row: sessions may have seen the others
  tasks::recommend(trainer, *data, task->model().item_feature, options.top_k, options.exclude_seen,
                   [&](const tasks::Recommendation& row) {
                     if (options.rows > 0 && row.row >= options.rows) return;
                     if (writer) {
                       writer->write(row);
                     } else {
                       show(row, names);
                     }
                     ++rows;
                     fewest = std::min(fewest, row.ids.size());
                     most = std::max(most, row.ids.size());
                   });
  if (writer) {
    writer->finish();
    fmt::print("wrote {} ({} row{}, {} item{} each)\n", options.output, rows, rows == 1 ? "" : "s",
               fewest < most ? fmt::format("{} to {}", fewest, most) : fmt::format("{}", most),
               most == 1 ? "" : "s");
  }
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
                      "write .csv, .jsonl or .parquet instead of printing");
  command->footer(
      "Raw ids come from items.parquet, which the run keeps beside its weights.\n"
      "Examples:\n  convoy predict runs/first --top-k 10 --rows 5\n"
      "  convoy predict runs/first --data today.parquet --output top.parquet\n");
  command->callback([options, &run] { run = [options] { return run_predict(*options); }; });
}

}  // namespace convoy::cli
