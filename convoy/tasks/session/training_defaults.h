#pragma once

#include "convoy/base/options.h"
#include "convoy/models/session/session.h"
#include "convoy/options/arguments.h"

namespace convoy::tasks {

/// Gives training's options defaults with which a session model learns more than which items are
/// popular. Hugging Face's suit large models: a learning rate of 5e-5, batches of 8.
void set_session_defaults(options::TrainingArguments& training);

/// Gives these options of `table` Hugging Face's defaults again, which Transformers4Rec has, where
/// nobody has set them. `source` is for messages.
void set_plain_defaults(OptionTable& table, const std::string& source);

/// Turns evaluations off, for a run without evaluation data, unless somebody asks for them, who is
/// told so.
void set_no_evaluation(OptionTable& table);

/// Gives the bodies that learn from masked items initial weights by the width of the model, where
/// nobody has set them: 0.02 * sqrt(768 / d_model). 0.02 suits BERT's 768, and narrow bodies learn
/// slowly from it.
void set_initial_weights(const models::SessionConfig& model, OptionTable& table);

}  // namespace convoy::tasks
