#pragma once

#include <string>

#include "cli/verify/verdicts.h"
#include "cli/verify/verify_trainings.h"

namespace convoy::cli {

/// Options of a comparison with Hugging Face's model.
struct TransformersOptions {
  std::string config;  ///< file of the run
  std::string python;  ///< program with torch, transformers and safetensors
  VerifyTrainings::Options trial;
  parallel::Parallelism split;  ///< of one device
};

/// Returns the Python to run: `typed`, else that of the variable CONVOY_PYTHON, else python3.
std::string python_of(const std::string& typed);

/// Settings without dropout, whose masks each program draws by itself.
Settings without_dropout(const OptionTable& table);

/// Throws UsageError where a run cannot be compared with Hugging Face's model.
void check_against_transformers(const Configured& configured, const tasks::Run& run,
                                const std::string& python);

/// Trains a run on one device of this process, and Hugging Face's model from the same weights on
/// the same rows with torch.optim.AdamW. Throws UsageError where Python or transformers cannot.
Verdict verify_against_transformers(const TransformersOptions& options);

}  // namespace convoy::cli
