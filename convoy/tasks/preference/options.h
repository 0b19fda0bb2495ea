#pragma once

#include <memory>
#include <string>

#include "convoy/base/options.h"
#include "convoy/nn/losses/preference.h"

namespace convoy::tasks {

/// Options of the loss of preferences, by TRL's names.
struct PreferenceLossOptions {
  /// Blocks read it when they are made: an opened run may be given others.
  std::shared_ptr<nn::PreferenceOptions> loss = std::make_shared<nn::PreferenceOptions>();
  bool disable_dropout = true;
  std::string ref_model_name_or_path;  ///< folder of the reference; "" = the model to start from

  void declare(OptionTable& table);
  /// Throws UsageError on options without effect.
  void settle(const OptionTable& table) const;
};

/// Has `table` answer the flags of TRL's DPO script that are no options here.
void answer_dpo_flags(OptionTable& table);

}  // namespace convoy::tasks
