#pragma once

#include <string>
#include <vector>

#include "convoy/base/options.h"
#include "convoy/models/language_model.h"

// Flags of Hugging Face's run_clm.py that are not options here.
namespace convoy::tasks {

/// Has `table` answer the flags that are of no use here, and `more` of a task's own.
void answer_run_clm_flags(OptionTable& table, std::vector<OtherFlag> more = {});

/// Sets the options of `config` that `overrides` names, such as "n_embd=10,resid_pdrop=0.2". Throws
/// UsageError on what is no key of such a config.
void apply_config_overrides(const std::string& overrides, models::LanguageModelConfig& config,
                            OptionTable& table);

}  // namespace convoy::tasks
