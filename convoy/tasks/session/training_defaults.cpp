#include "convoy/tasks/session/training_defaults.h"
#include "convoy/models/session/session_bodies.h"

#include <fmt/format.h>

#include <cmath>

namespace convoy::tasks {

namespace {

constexpr const char* kEvalStrategy = "train.eval_strategy";

bool is_free(const OptionTable& table, const std::string& key) {
  const auto* option = table.find(key);
  return option != nullptr && option->source.empty();
}

}  // namespace

void set_session_defaults(options::TrainingArguments& training) {
  training.num_train_epochs = 20;
  training.per_device_train_batch_size = 128;
  training.per_device_eval_batch_size = 32;
  training.learning_rate = 1e-3;
  training.logging_steps = training.usual_logging_steps = 50;
  training.eval_strategy = "epoch";
}

void set_plain_defaults(OptionTable& table, const std::string& source) {
  options::TrainingArguments plain, session;
  OptionTable plain_table, session_table;
  plain.declare(plain_table);
  set_session_defaults(session);
  session.declare(session_table);
  for (const auto& option : session_table.options()) {
    const auto value = plain_table.find(option.key())->plain();
    if (value != option.plain() && is_free(table, option.key())) {
      table.set(option.key(), value, source);
    }
  }
}

void set_no_evaluation(OptionTable& table) {
  if (is_free(table, kEvalStrategy)) table.set(kEvalStrategy, "no", "no evaluation data");
}

void set_initial_weights(const models::SessionConfig& model, OptionTable& table) {
  if (!models::session_body(model.body).learns_from_wide_weights) return;
  const auto range =
      fmt::format("{:.4g}", 0.02 * std::sqrt(768 / static_cast<double>(model.d_model)));
  for (const char* key : {"model.initializer_range", "model.embedding_initializer_range"}) {
    if (is_free(table, key)) table.set(key, range, "the width of the model");
  }
}

}  // namespace convoy::tasks
