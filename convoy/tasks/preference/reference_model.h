#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "convoy/models/language_model.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/tasks/task.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tasks {

/// Model of a folder that is the reference of another one which is trained.
class ReferenceModel {
 public:
  /// Requirements of the trained model's data.
  struct Needs {
    const tokenizers::Tokenizer* tokenizer = nullptr;  ///< of the ids; null = not known
    int64_t num_ids = 0;                               ///< where the tokenizer is not known
    int64_t max_length = 0;
  };

  /// Reads the config. Throws UsageError and FileError where `folder` holds no causal model, or one
  /// of other ids or of fewer positions than are needed.
  ReferenceModel(const std::filesystem::path& folder, const Needs& needs);

  /// Config as text, by which the reference is known again.
  std::string config() const;

  /// Makes its blocks, of which nothing is trained: in 16 bits they have no masters.
  parallel::ModelFactory factory() const;

  /// Memory of its weights, for a check before any is taken.
  planner::MemoryPart memory() const;

  /// Makes a Trainer of it on all ranks of `trainer`, which computes in the same precision and
  /// layout. Notes on its weights are added to `notes`.
  std::unique_ptr<train::Trainer> open(const train::Trainer& trainer,
                                       std::vector<std::string>& notes) const;

 private:
  std::filesystem::path folder_;
  std::shared_ptr<const models::LanguageModelConfig> config_;
};

}  // namespace convoy::tasks
