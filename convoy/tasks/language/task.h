#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/chat/chat_template.h"
#include "convoy/data/token_file.h"
#include "convoy/masking/span_corruption.h"
#include "convoy/masking/text_masking.h"
#include "convoy/models/language_model.h"
#include "convoy/tasks/language/dataset.h"
#include "convoy/tasks/language/generation_config.h"
#include "convoy/tasks/language/language_data.h"
#include "convoy/tasks/language/sentinel_tokens.h"
#include "convoy/tasks/lora.h"
#include "convoy/tasks/task.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Trains a language model on text: to predict the next token, hidden tokens, or hidden spans.
class LanguageTask : public Task {
 public:
  /// `family`: of models::language_families().
  explicit LanguageTask(std::string family, std::string task = "language");

  std::string name() const override { return "language model"; }
  void declare(OptionTable& table) override;
  void settle(OptionTable& table) override;
  Run prepare(const options::ParallelArguments& parallel) override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;
  void declare_predict(OptionTable& table) override;
  void predict(const PredictionRequest& prediction, const Run& run,
               const options::TrainingArguments& training) override;

  const models::LanguageModelConfig& config() const { return *config_; }
  /// Tokenizer of the model. Throws UsageError where none is found.
  const tokenizers::Tokenizer& tokenizer();
  /// Ids of a text for the model to continue, to fill, or to answer. Throws as tokenizer().
  std::vector<int32_t> prompt_ids(const std::string& text);
  /// Tokens that stand for hidden spans; none unless the model predicts spans.
  Sentinels sentinels() const;
  /// Settings of the folder that was opened; empty where it has none.
  GenerationConfig generation_config() const;
  /// Tokens that end a generated text, by generation_config.json of an opened folder or by its
  /// config.json.
  std::vector<int32_t> end_ids() const;
  /// Returns the id that a decoder sees first when it answers, by the same; none where a text goes
  /// on.
  std::optional<int64_t> start_id() const;
  /// Chat template of the model, which knows the day. Throws UsageError where there is none.
  virtual chat::ChatTemplate chat_template() const;
  /// Variables that it is given beside messages and tools.
  virtual chat::OrderedJson template_arguments() const { return chat::OrderedJson::object(); }

 protected:
  /// Declares the options of the data.
  virtual void declare_data(OptionTable& table);
  /// Fills in the data of a new run, and notes on them.
  virtual void read_data(const options::ParallelArguments& parallel, Run& out);
  /// Declares label smoothing, where a causal model learns the next token.
  void declare_smoothing(OptionTable& table);
  /// Name of the option that says how long rows are.
  virtual const char* length_option() const { return "block_size"; }
  /// Returns the template in `file`, else in the folder of the run, of the tokenizer, or of the
  /// model to start from.
  std::optional<chat::ChatTemplate> find_template(const std::string& file) const;
  /// Rows of random ids of `count` tokens.
  std::shared_ptr<dataset::Dataset> random_rows(int64_t count) const;
  /// Whether such rows stand in for a training file that is not there; gives them to `out` then.
  bool takes_random_rows(const options::ParallelArguments& parallel, Run& out) const;
  /// Throws UsageError on options of evaluation where nothing is evaluated.
  void check_evaluates(const Run& out) const;

  /// Sets the model's options from config_name, config_overrides and start.
  void read_configs(OptionTable& table);
  Run make_run();
  /// Config of the blocks, which the run's own differs from in nothing that a file holds.
  virtual Json config_of_blocks() const { return config_->to_json(); }
  /// Changes blocks that learn something else than the next token; empty = none do.
  virtual std::function<void(const nn::BlockList& blocks)> finish_blocks() const;
  /// Multiplications and additions for a row of training.
  double flops_per_row() const;
  masking::TextMasking masking() const;
  masking::SpanCorruption corruption() const;
  /// Token that ends a text in training, by config.json; none where it names none.
  std::optional<int32_t> text_end() const;
  std::optional<tokenizers::Tokenizer> find_tokenizer() const;
  /// Files of training data by source: data.train, or the sources of the mixture.
  std::vector<std::vector<std::string>> training_files() const;
  std::shared_ptr<const data::TokenTexts> read(const std::string& file) const;
  void find_documents(data::TokenTexts& texts, const std::string& file) const;
  void check_tokens(const data::TokenTexts& texts, const std::string& file) const;
  /// Blocks of the texts from first_text up to end_text. Throws UsageError where there is none.
  TokenBlocks blocks(const std::shared_ptr<const data::TokenTexts>& texts, int64_t first_text,
                     int64_t end_text, const std::string& file) const;
  /// Rows of these blocks for evaluation, at most max_eval_samples.
  std::shared_ptr<dataset::Dataset> evaluation_rows(std::vector<TokenBlocks> parts) const;
  /// Texts of a training file that are held out for evaluation.
  int64_t num_held_out(const data::TokenTexts& texts) const;
  int64_t block_size() const;
  /// Throws UsageError where rows are longer than the model has positions.
  void check_length() const;
  /// Throws UsageError where ranks share out the positions of rows of several documents, for which
  /// `asked` asks.
  static void refuse_context_ranks(int num_context_ranks, const char* asked, const char* instead);
  bool keeps_apart() const { return data_.documents == "apart"; }  ///< the texts of a row
  int64_t row_length() const;     ///< tokens of text in a row, before spans are hidden
  std::string peft_task() const;  ///< name of the task in PEFT's files
  bool learns(models::Objective objective) const { return config_->objective() == objective; }

  std::string family_, task_ = "language";
  std::string start_;  // folder of a pretrained model
  std::string config_name_, config_overrides_;
  bool do_eval_ = true;
  bool asks_for_split_ = false;  ///< somebody set validation_split_percentage
  std::unique_ptr<models::LanguageModelConfig> config_;
  Lora lora_;
  LanguageData data_;
  int64_t top_k_ = 5;  // of predictions
  std::optional<tokenizers::Tokenizer> tokenizer_;
  std::filesystem::path opened_;                     // folder of a run
  std::shared_ptr<std::vector<std::string>> notes_;  // of the run that was made
};

/// Returns the day, as templates have it: "2026-03-09".
std::string today();

/// `convoy data tokenize`.
void add_language_commands(CLI::App& data, Work& work);

}  // namespace convoy::tasks
