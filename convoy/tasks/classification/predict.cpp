#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/data/row_writer.h"
#include "convoy/tasks/answer_lines.h"
#include "convoy/tasks/classification/task.h"
#include "convoy/tasks/each_row.h"
#include "convoy/tasks/text_output.h"

namespace convoy::tasks {
namespace fs = std::filesystem;

namespace {

using Scores = std::span<const double>;  // of each label; 1 together

size_t best_of(Scores scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

Json json_of(Scores scores, const Labels& labels) {
  const auto best = best_of(scores);
  Json all = Json::object();
  for (size_t i = 0; i < scores.size(); ++i) all[labels.names()[i]] = scores[i];
  return {{"label", labels.names()[best]}, {"score", scores[best]}, {"scores", all}};
}

/// Line of a prediction in a .csv or .jsonl file.
std::string line_of(int64_t row, Scores scores, const Labels& labels, bool json) {
  const auto best = best_of(scores);
  if (json) {
    auto out = json_of(scores, labels);
    out["row"] = row;
    return json_line(out) + "\n";
  }
  auto line = fmt::format("{},{},{}", row, csv_value(labels.names()[best]), scores[best]);
  for (const double score : scores) line += fmt::format(",{}", score);
  return line + "\n";
}

std::string head_of(const Labels& labels) {
  std::string head = "row,label,score";
  for (const auto& name : labels.names()) head += "," + csv_value("score of " + name);
  return head + "\n";
}

/// Writer of a .parquet file with the same columns, which appears whole or not at all.
class LabelTable {
 public:
  LabelTable(const fs::path& file, const Labels& labels)
      : labels_(labels), file_(file), rows_(file_.temporary(), file, columns_of(labels)) {}

  void add(int64_t row, Scores scores) {
    const auto best = best_of(scores);
    std::vector<data::RowWriter::Value> values{row, labels_.names()[best], scores[best]};
    values.insert(values.end(), scores.begin(), scores.end());
    rows_.add(values);
  }

  void finish() {
    rows_.close();
    file_.commit();
  }

 private:
  static std::vector<data::RowWriter::Column> columns_of(const Labels& labels) {
    std::vector<data::RowWriter::Column> out{
        {"row", int64_t{}}, {"label", std::string()}, {"score", double{}}};
    for (const auto& name : labels.names()) out.emplace_back("score of " + name, double{});
    return out;
  }

  const Labels& labels_;
  AtomicFile file_;
  data::RowWriter rows_;
};

at::Tensor scores_of(const nn::Bundle& out, const at::Tensor&) {
  return at::softmax(out.at("logits").to(at::kDouble), 1);  // apart where the logits are
}

}  // namespace

void ClassificationTask::declare_predict(OptionTable& table) {
  table.add(
      "predict", "requests", requests_,
      "answer requests from the standard input, one per line, such as {\"text\": \"a fine film\"}");
}

std::string ClassificationTask::requests_help() const {
  return "A request, and its answer:\n"
         "  $ echo '{\"text\": \"a fine film\"}' | convoy predict runs/bert_classify --requests\n"
         "  "
         "{\"label\":\"positive\",\"score\":0.98,\"scores\":{\"negative\":0.02,\"positive\":0.98}}"
         "\n";
}

data::LabelledTexts ClassificationTask::texts_of(const Json& request) const {
  const bool pairs = !columns_.second.empty();
  const auto has = [&](const char* key) {
    return request.contains(key) && request.at(key).is_string();
  };
  if (!request.is_object() || !has("text") || has("text_pair") != pairs ||
      request.size() != (pairs ? 2U : 1U)) {
    fail<UsageError>("predict", "a request is {}; expected {}", json_line(request),
                     pairs ? R"({"text": "a", "text_pair": "b"})" : R"({"text": "a"})");
  }
  data::LabelledTexts out{.texts = {request.at("text").get<std::string>()}};
  if (pairs) out.seconds.push_back(request.at("text_pair").get<std::string>());
  return out;
}

void ClassificationTask::answer_requests(const PredictionRequest& asked, const Run& run,
                                         options::TrainingArguments training) {
  check_only_requests(asked);
  find_tokenizer();
  auto job = job::join_job(training.parallel);
  check_answers_alone(job.num_ranks());
  training.per_device_eval_batch_size = 1;
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  notes_.reset();
  answer_lines([&](const Json& request) {
    Json answer;
    each_row(trainer, *rows_of(texts_of(request), "a request"), 1, labels_.size(), "text",
             scores_of, [&](int64_t, Scores scores) { answer = json_of(scores, labels_); });
    return answer;
  });
}

void ClassificationTask::predict(const PredictionRequest& asked, const Run& run,
                                 const options::TrainingArguments& training) {
  if (requests_) return answer_requests(asked, run, training);
  const auto& file = asked.data.empty() ? valid_ : asked.data;
  if (file.empty()) {
    fail<UsageError>("tasks", "the run names no evaluation data; try --data FILE");
  }
  if (asked.to_file()) check_output(asked.output, "labels", /*tables=*/true, {file});
  find_tokenizer();
  if (opened_options_ != nullptr) find_pairs(file, *opened_options_);
  tell_unread(file);
  auto columns = columns_;
  columns.label.clear();
  const auto texts = data::read_labelled_texts(file, columns);
  const auto data = rows_of(texts, file);
  auto job = job::join_job(training.parallel);
  train::Trainer trainer(run.factory, training, nullptr, nullptr, job, run.fill);
  if (job.is_main()) asked.tell(*run.notes);
  std::optional<TextOutput> text;
  std::optional<LabelTable> table;
  const auto ending = fs::path(asked.output).extension();
  const bool json = ending == ".jsonl";
  if (job.is_main() && ending == ".parquet") {
    table.emplace(asked.output, labels_);
  } else if (job.is_main() && !asked.output.empty()) {
    text.emplace(asked.output);
    if (!json) text->put(head_of(labels_));
  }
  int64_t rows = 0;
  const auto use = [&](int64_t row, Scores scores) {
    ++rows;
    const auto best = best_of(scores);
    if (table) return table->add(row, scores);
    if (text) return text->put(line_of(row, scores, labels_, json));
    fmt::print("row {}: {} ({:.4f})  {}\n", row, printable(labels_.names()[best]), scores[best],
               printable(texts.texts[static_cast<size_t>(row)]));
  };
  each_row(trainer, *data, asked.rows, labels_.size(), "text", scores_of, use);
  if (text) text->finish();
  if (table) table->finish();
  if (asked.to_file() && job.is_main()) {
    fmt::print("wrote {} ({})\n", asked.output, plural(rows, "row"));
  }
}

}  // namespace convoy::tasks
