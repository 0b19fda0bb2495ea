#include "convoy/options/arguments.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/formats/shard_size.h"
#include "convoy/launch/environment.h"
#include "convoy/optim/lr_schedule.h"
#include "convoy/optim/optimizer.h"
#include "convoy/options/deepspeed.h"
#include "convoy/options/trainer_flags.h"
#include "convoy/parallel/step_facts.h"

namespace convoy::options {

namespace {

/// Calls `use` with the options that have these values.
void with_table(const TrainingArguments& arguments,
                const std::function<void(const OptionTable&)>& use) {
  TrainingArguments values;
  OptionTable table;
  values.declare(table);
  values = arguments;
  use(table);
}

/// Largest number of rows of a rank's step, so that the rows of a million ranks fit an int64.
constexpr int64_t kMostRows = (int64_t{1} << 43) - 1;

/// Checks a number of steps: a share of all steps below 1, or a whole number.
void check_steps(const char* name, double steps) {
  if (steps < 1 || steps == std::floor(steps)) return;
  fail<UsageError>("train",
                   "{} = {} is no number of steps; expected a whole one, or below 1 a fraction of "
                   "all steps; try {}",
                   name, steps, std::floor(steps));
}

}  // namespace

std::optional<std::string> TrainingArguments::read_command_line(int argc, char** argv) {
  OptionTable table;
  declare(table);
  table.answer(trainer_flags());
  const auto rest = table.take_overrides({argv + 1, argv + argc});
  for (const auto& word : rest) {
    if (word == "--help" || word == "-h") return table.help_text();
    if (word.starts_with("--nproc")) {
      fail<UsageError>("config", "{} is of convoy train; try convoy launch -n 2 {}", word, argv[0]);
    }
    if (word.starts_with("--")) table.set(word.substr(2), "", "the command line");
    fail<UsageError>("config", "unexpected argument '{}'; --help lists the options", word);
  }
  if (!deepspeed.empty()) {
    if (auto note = take_deepspeed(deepspeed, table); !note.empty()) {
      notes.push_back(std::move(note));
    }
  }
  table.check();
  check_effect();
  return std::nullopt;
}

void TrainingArguments::check_effect() const {
  if (!parallel.counts_in_total()) return;
  auto strategy = parallel.strategy;
  if (strategy == "auto" && launch::detect_environment().world_size > 1) strategy = "ddp";
  if (strategy == "single" || strategy == "ddp" || strategy == "plan") {
    fail<UsageError>("config",
                     "parallel.dp_batch = total has no effect with parallel.strategy = {}; try "
                     "--strategy dp, or --dp_batch per_device",
                     strategy);
  }
}

std::vector<std::string> TrainingArguments::shared_options() const {
  std::vector<std::string> out;
  with_table(*this, [&](const OptionTable& table) {
    for (const auto& option : table.options()) {
      if (auto text = option.shared(); !text.empty()) out.push_back(std::move(text));
    }
  });
  out.insert(out.end(), parallel.task_options.begin(), parallel.task_options.end());
  return out;
}

std::vector<std::string> ParallelArguments::shared_options() const {
  TrainingArguments arguments;
  arguments.parallel = *this;
  return arguments.shared_options();
}

parallel::StepFacts ParallelArguments::facts() const {
  return {.low_precision = low_precision, .state_bytes = state_bytes};
}

void ParallelArguments::share(const OptionTable& table) {
  if (const auto* chosen = table.find("train.optim"); chosen != nullptr) {
    state_bytes = optim::make_optimizer(chosen->plain())->state_bytes();
  }
  low_precision = false;
  for (const char* name : {"train.bf16", "train.fp16"}) {
    const auto* chosen = table.find(name);
    low_precision |= chosen != nullptr && chosen->plain() == "true";
  }
  task_options.clear();
  with_table(TrainingArguments(), [&](const OptionTable& own) {
    for (const auto& option : table.options()) {
      if (own.find(option.key()) != nullptr) continue;
      if (auto text = option.shared(); !text.empty()) task_options.push_back(std::move(text));
    }
  });
}

void TrainingArguments::check(bool trains, bool evaluates) const {
  with_table(*this, [](const OptionTable& table) { table.check(); });
  formats::shard_bytes(output.max_shard_size);
  if (bf16 && fp16) fail<UsageError>("train", "bf16 and fp16 are both on; expected one of them");
  if (!trains) return;
  if (report_to == "tensorboard") events_folder();
  check_steps("logging_steps", logging_steps);
  if (eval_steps) check_steps("eval_steps", *eval_steps);
  check_steps("save_steps", save_steps);
  if (stop_steps > 0) check_steps("stop_steps", stop_steps);
  if (per_device_train_batch_size > kMostRows / gradient_accumulation_steps) {
    fail<UsageError>(
        "train",
        "{} micro-batches of {} rows are no batch that counts; expected at most {} "
        "rows; try a smaller per_device_train_batch_size or gradient_accumulation_steps",
        gradient_accumulation_steps, per_device_train_batch_size, kMostRows);
  }
  const auto shape = optim::LrShape::read(lr_scheduler_type, lr_scheduler_kwargs);
  const double end = lr_scheduler_type == "polynomial" ? shape.lr_end : shape.min_lr.value_or(0);
  if (end > 0 && learning_rate <= end) {
    fail<UsageError>("train",
                     "lr_scheduler_type = {} ends at {:g}, above which learning_rate has to begin; "
                     "got {:g}; try a larger one, or linear",
                     lr_scheduler_type, end, learning_rate);
  }
  if (!evaluates && eval_strategy != "no") {
    fail<UsageError>(
        "train",
        "eval_strategy = {} needs evaluation data; got none; try --data.valid FILE, and no "
        "--do_eval false",
        eval_strategy);
  }
  if (!evaluates && !metric_for_best_model.empty()) {
    fail<UsageError>(
        "train",
        "metric_for_best_model = {} needs evaluation data; got none; try --data.valid FILE, and no "
        "--do_eval false",
        metric_for_best_model);
  }
  if ((load_best_model_at_end || early_stopping_patience > 0) && eval_strategy == "no") {
    fail<UsageError>("train", "{} needs evaluations; try --eval_strategy epoch",
                     load_best_model_at_end ? "load_best_model_at_end" : "early_stopping_patience");
  }
  if (load_best_model_at_end && output.dir.empty()) {
    fail<UsageError>("train", "load_best_model_at_end keeps checkpoints; try --output_dir DIR");
  }
}

void TrainingArguments::check_for_cpu(const std::string& instead) const {
  const char* what = tf32                         ? "tf32"
                     : parallel.device == "cuda"  ? "device = cuda"
                     : parallel.backend == "nccl" ? "backend = nccl"
                                                  : nullptr;
  if (what == nullptr) return;
  fail<UsageError>("train", "{} is for GPUs, and this is about the CPU of this host; try {}", what,
                   instead);
}

std::vector<std::string> TrainingArguments::warnings(int64_t max_steps) const {
  auto out = notes;
  const TrainingArguments usual;
  auto unused = [&](const char* name, const std::string& strategy, const std::string& steps) {
    if (strategy == "steps") return;
    out.push_back(
        fmt::format("{0}_steps = {1} has no effect with {0}_strategy = {2}; try "
                    "--{0}_strategy steps",
                    name, steps, strategy));
  };
  if (eval_steps) unused("eval", eval_strategy, fmt::format("{}", *eval_steps));
  if (save_steps != usual.save_steps) {
    unused("save", save_strategy, fmt::format("{}", save_steps));
  }
  if (logging_steps != usual_logging_steps) {
    unused("logging", logging_strategy, fmt::format("{}", logging_steps));
  }
  if (save_total_limit && save_strategy == "no") {
    out.push_back(fmt::format("save_total_limit = {} has no effect with save_strategy = no",
                              *save_total_limit));
  }
  if (!metric_for_best_model.empty() && eval_strategy == "no") {
    out.push_back(
        fmt::format("metric_for_best_model = {} has no effect with eval_strategy = no; try "
                    "--eval_strategy epoch",
                    metric_for_best_model));
  }
  if (early_stopping_threshold != usual.early_stopping_threshold && early_stopping_patience == 0) {
    out.push_back(
        fmt::format("early_stopping_threshold = {} has no effect without --early_stopping_patience",
                    early_stopping_threshold));
  }
  if (warmup_steps >= max_steps && warmup_steps > 0) {
    out.push_back(fmt::format(
        "warmup_steps = {} reaches to the end of the run's {} steps, so the learning rate never "
        "comes to {}; try fewer, or --warmup_ratio 0.1",
        warmup_steps, max_steps, learning_rate));
  }
  return out;
}

std::filesystem::path TrainingArguments::events_folder() const {
  if (!logging_dir.empty()) return logging_dir;
  if (!output.dir.empty()) return std::filesystem::path(output.dir) / kEvents;
  fail<UsageError>(
      "train", "report_to = tensorboard needs a folder; try --logging_dir DIR or --output_dir DIR");
}

}  // namespace convoy::options
