#pragma once

#include <memory>
#include <optional>
#include <string>

#include "convoy/data/labelled_texts.h"
#include "convoy/models/bert/bert_text.h"
#include "convoy/tasks/classification/texts.h"
#include "convoy/tasks/lora.h"
#include "convoy/tasks/task.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Sorts texts, or pairs of them, by labels.
class ClassificationTask : public Task {
 public:
  std::string name() const override { return "classifier of texts"; }
  void declare(OptionTable& table) override;
  void settle(OptionTable& table) override;
  Run prepare(const options::ParallelArguments& parallel) override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;
  void declare_predict(OptionTable& table) override;
  std::string requests_help() const override;
  void predict(const PredictionRequest& prediction, const Run& run,
               const options::TrainingArguments& training) override;

 private:
  /// {"text": "...", "text_pair": "..."}, the second where the model reads pairs.
  data::LabelledTexts texts_of(const Json& request) const;
  void answer_requests(const PredictionRequest& asked, const Run& run,
                       options::TrainingArguments training);
  Run make_run();
  Json config_json() const;
  std::shared_ptr<dataset::Dataset> read(const std::string& file) const;
  std::shared_ptr<dataset::Dataset> rows_of(const data::LabelledTexts& texts,
                                            const std::string& file) const;
  /// Returns what a person should know of them; "" = nothing.
  std::string find_labels(const data::LabelledTexts& texts);
  /// Whether there is a classifier to start from; throws UsageError on one of more or fewer labels.
  bool check_head() const;
  /// Whether the model to start from was trained for another task, which its classifier is of.
  static bool starts_from_other_head(const std::filesystem::path& start);
  void find_tokenizer();
  /// Decides by the columns of `file` whether texts are pairs, unless an option says so.
  void find_pairs(const std::string& file, OptionTable& table);
  /// Tells of second texts in `file` that a model of single texts does not read.
  void tell_unread(const std::string& file) const;
  /// Limits max_length to what the model and its tokenizer take, unless an option gives it.
  void limit_length(OptionTable& table);

  std::string family_ = "bert", task_ = "classification";
  std::string start_;  // folder of a pretrained model
  models::BertTextConfig config_;
  Lora lora_;
  std::string train_, valid_, tokenizer_name_;
  bool do_eval_ = true;
  data::LabelledColumns columns_;
  int64_t max_length_ = 128;
  std::optional<int64_t> pad_to_multiple_of_;
  Labels labels_;
  bool requests_ = false;
  std::optional<tokenizers::Tokenizer> tokenizer_;
  std::filesystem::path opened_;                     // folder of a run
  OptionTable* opened_options_ = nullptr;            // its own, and later what is typed
  std::shared_ptr<std::vector<std::string>> notes_;  // of the run that was made
};

}  // namespace convoy::tasks
