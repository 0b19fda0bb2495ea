#pragma once

#include <memory>
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
  static std::vector<std::string> families();

  void settle(OptionTable& table) override;
  Run prepare(const options::ParallelArguments& parallel) override;
  NamedData evaluation_data(const std::string& where) override;
  void predict(const Prediction& prediction, const Run& run,
               const options::TrainingArguments& training) override;
  chat::ChatTemplate chat_template() const override;
  chat::OrderedJson template_arguments() const override;

 protected:
  void declare_data(OptionTable& table) override;
  void read_data(const options::ParallelArguments& parallel, Run& out) override;
  const char* length_option() const override { return "max_length"; }

 private:
  /// Settles the day that the template is told: a resumed run keeps it.
  void settle_date(OptionTable& table);
  /// Template with its day; none where there is none.
  std::optional<chat::ChatTemplate> dated_template() const;
  std::shared_ptr<const ChatRows> read_rows(const std::string& file) const;

  /// Conversations of the training files, one file after the other, by source.
  struct Training {
    std::shared_ptr<const ChatRows> all;
    std::vector<std::vector<ChatRange>> train;
    std::vector<ChatRange> held_out;  ///< for evaluation
  };
  Training read_training() const;

  /// Rows of these conversations; where they are packed, adds to the notes how.
  RowsOfConversations rows_of(const ChatRows& all, const std::vector<ChatRange>& ranges) const;
  std::shared_ptr<dataset::Dataset> dataset(std::shared_ptr<const ChatRows> all,
                                            RowsOfConversations rows,
                                            std::optional<data::Mixture> mixture = {}) const;
  /// Data set of the first max_eval_samples conversations of these ranges.
  std::shared_ptr<dataset::Dataset> evaluation_rows(std::shared_ptr<const ChatRows> all,
                                                    std::vector<ChatRange> ranges) const;
  /// Training rows, mixed where a mixture is asked for.
  std::shared_ptr<dataset::Dataset> training_rows(const Training& training) const;

  ChatOptions options_;
  int64_t least_length_ = 2;  ///< of a batch
};

}  // namespace convoy::tasks
