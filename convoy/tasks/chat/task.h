#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/tasks/chat/chat_data.h"
#include "convoy/tasks/language/task.h"

namespace convoy::tasks {

/// Trains a causal language model on conversations, which it learns to answer.
class ChatTask : public LanguageTask {
 public:
  /// `family`: of families().
  explicit ChatTask(std::string family);
  /// Families that predict the next token.
  static std::vector<std::string> families();

  void settle(OptionTable& table) override;
  Run prepare(const options::ParallelArguments& parallel) override;
  Run open(const std::filesystem::path& folder, OptionTable& table) override;
  NamedData evaluation_data(const std::string& where) override;
  void predict(const PredictionRequest& prediction, const Run& run,
               const options::TrainingArguments& training) override;
  chat::ChatTemplate chat_template() const override;
  chat::OrderedJson template_arguments() const override;

 protected:
  void declare_data(OptionTable& table) override;
  void read_data(const options::ParallelArguments& parallel, Run& out) override;
  const char* length_option() const override { return "max_length"; }

  /// A task whose samples are `per_sample` conversations each, side by side in a row.
  ChatTask(std::string family, std::string task, int64_t per_sample);
  /// Declares the files of `samples`, which have `columns`, and how many of them are read.
  void declare_files(OptionTable& table, const std::string& samples, const std::string& columns);
  /// Conversations of a file.
  virtual std::shared_ptr<const ChatRows> read_rows(const std::string& file) const;
  /// Columns of the batches of rows of these conversations, beside the usual ones.
  virtual DerivedColumns columns_of(const std::shared_ptr<const ChatRows>& /*all*/,
                                    const RowsOfConversations& /*rows*/) const {
    return {};
  }
  virtual std::string name_of_samples() const { return "conversations"; }
  /// Whether a row of a batch has several conversations, which are kept apart.
  bool has_documents() const { return options_.packing || per_sample_ > 1; }
  /// Throws UsageError without a tokenizer.
  const tokenizers::Tokenizer& tokenizer_of(const std::string& file) const;
  /// Template with its day; none where there is none.
  std::optional<chat::ChatTemplate> dated_template() const;
  ChatPadding padding() const;
  /// Largest number of tokens of a conversation in the run that was opened, where it differs from
  /// this evaluation's.
  std::optional<int64_t> other_length() const;

  ChatOptions options_;

 private:
  /// Settles the day that the template is told: a resumed run keeps it.
  void settle_date(OptionTable& table);
  int64_t num_samples(const ChatRows& all) const { return all.size() / per_sample_; }

  /// Conversations of the training files, one file after the other, by source.
  struct Training {
    std::shared_ptr<const ChatRows> all;
    std::vector<std::vector<ChatRange>> train;  ///< samples
    std::vector<ChatRange> held_out;            ///< samples for evaluation
  };
  Training read_training() const;

  /// Checksum of samples' tokens.
  uint64_t sum_of(const ChatRows& all, const std::vector<ChatRange>& ranges) const;
  /// Rows of these samples; where they are packed, adds to the notes how.
  RowsOfConversations rows_of(const ChatRows& all, const std::vector<ChatRange>& ranges) const;
  std::shared_ptr<dataset::Dataset> dataset(std::shared_ptr<const ChatRows> all,
                                            RowsOfConversations rows,
                                            std::optional<data::Mixture> mixture = {}) const;
  /// Data set of the first max_eval_samples samples of these ranges.
  std::shared_ptr<dataset::Dataset> evaluation_rows(std::shared_ptr<const ChatRows> all,
                                                    std::vector<ChatRange> ranges) const;
  /// Training rows, mixed where a mixture is asked for.
  std::shared_ptr<dataset::Dataset> training_rows(const Training& training) const;

  int64_t per_sample_ = 1;
  int64_t least_length_ = 2;               ///< of a batch
  std::optional<int64_t> trained_length_;  ///< of conversations, in the run that was opened
};

}  // namespace convoy::tasks
