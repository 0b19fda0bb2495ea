#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "convoy/job/job.h"
#include "convoy/tasks/language/generate.h"
#include "convoy/tasks/language/task.h"
#include "convoy/train/trainer.h"

namespace convoy::tasks {

/// A text to continue, or to answer.
struct Prompt {
  std::string text;
  std::string name;  ///< for messages: "line 3 of prompts.txt"
};

/// An opened language model that continues texts, or answers them, any number of times.
class TextGenerator {
 public:
  /// Throws UsageError for a model that does neither, and for parallelism that cannot.
  TextGenerator(Task& task, const Run& run, const options::TrainingArguments& training);

  /// Returns the ids of prompts. Throws UsageError that names an empty one, or one that the
  /// tokenizer does not know.
  std::vector<std::vector<int32_t>> encode(const std::vector<Prompt>& prompts) const;

  /// Completes the options: the run's seed, the model's end tokens, and for those that were not
  /// `typed` its generation_config.json. Adds sentences about them to `notes`.
  void complete(const std::set<std::string>& typed, GenerateOptions& options,
                std::vector<std::string>& stops, std::vector<std::string>& notes) const;

  /// Reads the weights.
  void load();

  /// Generates texts on all ranks, and hands them to `use` on rank 0, by number. A text ends before
  /// the first of `stops`. Throws like tasks::generate().
  GenerateReport generate(const std::vector<std::vector<int32_t>>& prompts, GenerateOptions options,
                          const std::vector<std::string>& stops,
                          const std::function<void(const Generated&, const std::string&)>& use);

  /// Returns the model at work, after load().
  parallel::Strategy& strategy() { return trainer_->strategy(); }
  const LanguageTask& task() const { return task_; }
  const tokenizers::Tokenizer& tokenizer() const { return tokenizer_; }

  bool is_main() const { return job_.is_main(); }
  int num_ranks() const { return job_.num_ranks(); }
  /// Whether texts are answers, rather than what follows on the prompt.
  bool answers() const { return answers_; }
  /// A warning where the tokenizer had no text for some of the new tokens, else "".
  std::string nameless_tokens() const;

 private:
  std::string text_of(const std::vector<int32_t>& prompt, std::span<const int32_t> ids) const;
  bool has_name(int32_t id) const;
  /// Whether the last of the new ids completes one of these texts.
  bool ends_with_stop(const std::vector<int32_t>& prompt, std::span<const int32_t> ids,
                      const std::vector<std::string>& stops) const;

  LanguageTask& task_;
  const Run& run_;
  const options::TrainingArguments& training_;
  const tokenizers::Tokenizer& tokenizer_;
  const Sentinels sentinels_;
  const bool answers_;
  const job::Job job_;
  std::optional<train::Trainer> trainer_;
  int64_t num_nameless_ = 0;
};

}  // namespace convoy::tasks
