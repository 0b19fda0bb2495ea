#include <ATen/Functions.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/text_output.h"

// Shapes: N rows of a step, L labels.
namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

/// What is known of a text.
struct Sorted {
  int64_t row = 0;
  std::vector<double> scores;  ///< of each label; 1 together

  size_t best() const {
    return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }
};

/// Hands over each row on rank 0, in order.
void sort_texts(train::Trainer& trainer, const train::Dataset& data, int64_t num_labels,
                const std::function<void(const Sorted&)>& use) {
  auto& strategy = trainer.strategy();
  const auto& group = strategy.processes();
  trainer.predict(data, [&](const train::StepBatch& step, const std::vector<nn::Bundle>& outs) {
    const int64_t ranks = strategy.num_ranks();
    const int64_t most = (step.end - step.s0 + ranks - 1) / ranks * strategy.num_local_ranks();
    auto mine = at::full({most, 1 + num_labels}, -1, at::kDouble);  // row, scores
    int64_t filled = 0;
    for (size_t c = 0; c < outs.size(); ++c) {
      const auto& cell = step.cells[c];
      if (cell.empty() || step.num_samples[c] == 0) continue;
      const int64_t rows = cell.samples.size(0);
      auto here = mine.narrow(0, filled, rows);
      here.select(1, 0).copy_(cell.samples + step.s0);
      here.narrow(1, 1, num_labels).copy_(at::softmax(outs[c].at("logits"), 1));
      filled += rows;
    }
    const auto all = group.all_gather(mine, "gather scores").flatten(0, 1);
    if (group.rank() != 0) return;
    const auto order = all.select(1, 0).argsort().contiguous();
    for (int64_t i = 0; i < order.size(0); ++i) {
      const auto* from =
          all.const_data_ptr<double>() + order.const_data_ptr<int64_t>()[i] * all.size(1);
      if (from[0] < 0) continue;
      Sorted row{static_cast<int64_t>(from[0]), {from + 1, from + 1 + num_labels}};
      if (!std::isfinite(row.scores[0])) {
        fail<NumericError>("tasks",
                           "the scores of text {} are not finite; try another checkpoint, or fp32",
                           row.row + 1);
      }
      use(row);
    }
  });
}

/// A line of .csv or .jsonl.
std::string line_of(const Sorted& row, const Labels& labels, bool json) {
  const auto best = row.best();
  if (json) {
    Json scores = Json::object();
    for (size_t i = 0; i < row.scores.size(); ++i) scores[labels.names()[i]] = row.scores[i];
    return json_line({{"row", row.row},
                      {"label", labels.names()[best]},
                      {"score", row.scores[best]},
                      {"scores", scores}}) +
           "\n";
  }
  auto line = fmt::format("{},{},{}", row.row, csv_value(labels.names()[best]), row.scores[best]);
  for (const double score : row.scores) line += fmt::format(",{}", score);
  return line + "\n";
}

}  // namespace

void ClassificationTask::predict(const Prediction& asked, const Run& run,
                                 const train::TrainingArguments& training) {
  const auto& file = asked.data.empty() ? valid_ : asked.data;
  if (file.empty()) {
    fail<UsageError>("tasks", "the run names no evaluation data; try --data FILE");
  }
  const bool to_file = !asked.output.empty() && asked.output != "-";
  const auto ending = fs::path(asked.output).extension();
  if (to_file && ending != ".csv" && ending != ".jsonl") {
    fail<UsageError>("tasks",
                     "cannot write labels to {}; expected a name that ends in .csv or .jsonl, or - "
                     "for the standard output",
                     asked.output);
  }
  if (to_file && same_file(file, asked.output)) {
    fail<UsageError>("tasks", "--output {} would replace the input; try another name",
                     asked.output);
  }
  find_tokenizer();
  auto columns = columns_;
  columns.label.clear();
  const auto texts = data::read_labelled_texts(file, columns);
  const auto data = rows_of(texts, file);
  auto job = train::join_job(training.parallel);
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  std::optional<TextOutput> output;
  const bool json = ending == ".jsonl";
  if (job.is_main() && !asked.output.empty()) {
    output.emplace(to_file ? fs::path(asked.output) : fs::path());
    std::string head = "row,label,score";
    for (const auto& name : labels_.names()) head += "," + csv_value("score of " + name);
    if (!json) output->put(head + "\n");
  }
  int64_t rows = 0;
  sort_texts(trainer, *data, labels_.size(), [&](const Sorted& row) {
    if (asked.rows > 0 && row.row >= asked.rows) return;
    ++rows;
    if (output) return output->put(line_of(row, labels_, json));
    const auto best = row.best();
    fmt::print("row {}: {} ({:.4f})  {}\n", row.row, labels_.names()[best], row.scores[best],
               texts.texts[static_cast<size_t>(row.row)]);
  });
  if (output) output->finish();
  if (output && to_file) {
    fmt::print("wrote {} ({} row{})\n", asked.output, rows, rows == 1 ? "" : "s");
  }
}

}  // namespace convoy::tasks
