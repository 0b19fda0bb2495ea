#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "convoy/base/options.h"
#include "convoy/data/text_source.h"
#include "convoy/tasks/mixture_options.h"

namespace convoy::tasks {

/// `[data]` of a language model: Hugging Face's run_clm by its names.
struct LanguageData {
  std::string train, valid;
  MixtureOptions mixture;  ///< in place of `train`
  std::string tokenizer;
  std::string column = data::kTextColumn;
  std::string grouping = "run_clm";
  double label_smoothing_factor = 0;   ///< of causal models, in training
  std::string documents = "together";  ///< of causal models: whether texts of a row see each other
  int64_t document_end_token = -1;     ///< in files of ids that mark no documents; -1: none
  int64_t block_size = 0;
  double validation_split_percentage = 5;
  double mlm_probability = 0.15;  ///< of families that name what is hidden
  double mean_noise_span_length = 3;
  std::optional<int64_t> max_train_samples, max_eval_samples;  ///< blocks; none = all
  std::string ids_tokenizer;  ///< fingerprint, where ids were read without the tokenizer
  int64_t random_tokens = 0;
  int64_t memory_budget_mb = 256;

  /// `usual_length`: of a row of the family.
  void declare(OptionTable& table, int64_t usual_length);
};

}  // namespace convoy::tasks
