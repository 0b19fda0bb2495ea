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
  Run prepare(const train::ParallelArguments& parallel) override;
  NamedData evaluation_data(const std::string& where) override;
  void predict(const Prediction& prediction, const Run& run,
               const train::TrainingArguments& training) override;
  chat::ChatTemplate chat_template() const override;
  chat::OrderedJson template_arguments() const override;

 protected:
  void declare_data(OptionTable& table) override;
  void read_data(const train::ParallelArguments& parallel, Run& out) override;
  const char* length_option() const override { return "max_length"; }

 private:
  /// Settles the day that the template is told: a resumed run keeps it.
  void settle_date(OptionTable& table);
  /// Template with its day; none where there is none.
  std::optional<chat::ChatTemplate> dated_template() const;
  std::shared_ptr<const ChatRows> read_rows(const std::string& file) const;
  /// Data set of conversations [first, last); where they are packed, adds to the notes how.
  std::shared_ptr<train::Dataset> dataset(std::shared_ptr<const ChatRows> all, int64_t first,
                                          int64_t last) const;

  ChatOptions options_;
  int64_t least_length_ = 2;  ///< of a batch
};

}  // namespace convoy::tasks
