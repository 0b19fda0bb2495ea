#pragma once

#include "convoy/options/arguments.h"

namespace convoy::bench {

/// Takes evaluations, and what follows from them, out of a run that is timed.
inline void leave_out_evaluation(options::TrainingArguments& arguments) {
  arguments.eval_strategy = "no";
  arguments.load_best_model_at_end = false;
  arguments.metric_for_best_model.clear();
  arguments.early_stopping_patience = 0;
}

}  // namespace convoy::bench
