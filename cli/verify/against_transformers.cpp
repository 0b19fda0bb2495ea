#include "cli/verify/against_transformers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "cli/plan/plan_settings.h"
#include "cli/verify/recorded_rows.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/job/job.h"
#include "convoy/launch/process.h"
#include "convoy/train/trainer.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* kScript =
#include <cli/train_transformers_py.h>
    ;
constexpr const char* kAdamW = "adamw_torch";

/// Settings of the run that the script reads.
void write_run(const fs::path& file, const options::TrainingArguments& training,
               const VerifyTrainings::Options& trial, bool bf16) {
  const auto steps = static_cast<double>(trial.steps);
  const auto warmup = training.warmup_steps > 0
                          ? training.warmup_steps
                          : static_cast<int64_t>(std::ceil(training.warmup_ratio * steps));
  const Json run{{"steps", trial.steps},
                 {"checkpoint", checkpoint::name_of_checkpoint(trial.steps)},
                 {"threads", trial.threads},
                 {"learning_rate", training.learning_rate},
                 {"lr_scheduler_type", training.lr_scheduler_type},
                 {"lr_scheduler_kwargs", training.lr_scheduler_kwargs},
                 {"warmup_steps", warmup},
                 {"weight_decay", training.weight_decay},
                 {"adam_beta1", training.adam_beta1},
                 {"adam_beta2", training.adam_beta2},
                 {"adam_epsilon", training.adam_epsilon},
                 {"max_grad_norm", training.max_grad_norm},
                 {"bf16", bf16}};
  write_file(file, run.dump(2) + "\n");
}

/// Trains in this process and writes the rows.
conformance::TrainingRecord train_here(const TransformersOptions& options, const Settings& settings,
                                       const fs::path& folder) {
  const auto configured = read_config(options.config);
  set(configured->table, options.trial.cut);
  set(configured->table, settings);
  const auto& training = configured->training;
  auto run = configured->task->prepare(training.parallel);
  const RecordedRows rows(run, static_cast<uint64_t>(training.seed), options.trial.steps);
  {
    train::Trainer trainer(run.factory, training, rows.data(), nullptr,
                           job::join_job(training.parallel), run.fill);
    trainer.set_files(run.files);
    trainer.train();
  }
  rows.write(folder / "rows.safetensors");
  return record_of(folder / "here", options.trial.steps);
}

/// Last line of what a program said.
std::string last_line(const std::string& text) {
  const auto trimmed = std::string(trim(text));
  const auto end = trimmed.rfind('\n');
  return end == std::string::npos ? trimmed : trimmed.substr(end + 1);
}

launch::ProcessResult run_python(const std::vector<std::string>& argv) try {
  return launch::run_process(argv, {.env = {{"CUDA_VISIBLE_DEVICES", ""}}});
} catch (const UsageError& error) {
  fail<UsageError>("cli",
                   "--against transformers needs a Python with torch, transformers and "
                   "safetensors; got {}, which cannot be started; try --python PATH",
                   argv.front());
}

/// Trains Hugging Face's model on the rows of `folder`, in bf16 or fp32.
conformance::TrainingRecord train_there(const TransformersOptions& options,
                                        const options::TrainingArguments& training, bool bf16,
                                        const fs::path& folder) {
  const auto script = folder / "train_transformers.py";
  write_file(script, kScript);
  write_run(folder / "run.json", training, options.trial, bf16);
  fs::remove_all(folder / "there");  // what was opened stays readable
  const auto result = run_python({options.python, script.string(), folder.string()});
  if (!result.ok()) {
    fail<UsageError>("cli", "--against transformers: {}", last_line(result.err));
  }
  return record_of(folder / "there", options.trial.steps);
}

}  // namespace

std::string python_of(const std::string& typed) {
  if (!typed.empty()) return typed;
  const char* variable = std::getenv("CONVOY_PYTHON");
  return variable != nullptr && *variable != '\0' ? variable : "python3";
}

Settings without_dropout(const OptionTable& table) {
  Settings out;
  for (const auto& option : table.options()) {
    double rate = 0;
    const bool is_rate = option.section == "model" && option.name.find("drop") != std::string::npos;
    if (!is_rate || !parse_number(option.plain(), rate) || rate == 0) continue;
    out.emplace_back(option.key(), "0");
  }
  return out;
}

void check_against_transformers(const Configured& configured, const tasks::Run& run,
                                const std::string& python) {
  const auto& training = configured.training;
  if (!run.labelled) {
    fail<UsageError>("cli", "--against transformers: transformers has no {}; try without --against",
                     configured.task->name());
  }
  int64_t rank = 0;  // of adapters
  const auto* adapters = configured.table.find("model.lora_r");
  if (adapters != nullptr && parse_number(adapters->plain(), rank) && rank > 0) {
    fail<UsageError>("cli",
                     "--against transformers trains all weights of Hugging Face's model; got "
                     "lora_r = {}; try --lora_r 0, or without --against",
                     rank);
  }
  if (training.optim != kAdamW) {
    fail<UsageError>("cli",
                     "--against transformers trains Hugging Face's model with AdamW; got optim = "
                     "{}; try --optim {}",
                     training.optim, kAdamW);
  }
  if (training.fp16) {
    fail<UsageError>("cli",
                     "--against transformers compares fp32 and bf16; got fp16, whose loss scale "
                     "follows rules of each program; try --fp16 false");
  }
  const auto known =
      run_python({python, "-c",
                  "import importlib.util as u, sys\n"
                  "lack = [n for n in ('torch', 'transformers', 'safetensors') if not "
                  "u.find_spec(n)]\nprint('lacks', *lack)\nsys.exit(bool(lack))"});
  constexpr std::string_view kWord = "lacks";  // which shows that it is Python
  auto lack = std::string(trim(known.out));
  if (!lack.starts_with(kWord)) {
    fail<UsageError>("cli",
                     "--against transformers needs a Python with torch, transformers and "
                     "safetensors; {} has no such modules; try --python PATH, or the variable "
                     "CONVOY_PYTHON",
                     python);
  }
  if (!known.ok()) {
    lack = trim(lack.substr(kWord.size()));
    fail<UsageError>("cli",
                     "--against transformers needs a Python with torch, transformers and "
                     "safetensors; {} has no {}; try --python PATH, or the variable CONVOY_PYTHON",
                     python, join(split(lack, ' ')));
  }
}

Verdict verify_against_transformers(const TransformersOptions& options) {
  const auto configured = read_config(options.config);
  const VerifyTrainings trainings(*configured, options.trial);
  const TrialFolder trial;
  const auto& folder = trial.path();
  const auto failure = trainings.write_start(options.split, folder / "start");
  if (!failure.empty()) throw UsageError(failure);
  Verdict out{.layout = "one device, against transformers"};
  const auto settings = trainings.settings_of_record(options.split, folder / "here");
  const auto here = train_here(options, settings, folder);
  const auto& training = configured->training;
  const auto there = train_there(options, training, training.bf16, folder);
  out.layout += " " + std::string(trim(read_file(folder / "there/version")));
  out.contract = {
      .bits = false,
      .at_most = conformance::rounding_tolerances(training.bf16, training.learning_rate),
      .reason = "Hugging Face's model adds in its own order"};
  out.difference = conformance::difference(here, there);
  out.broken = conformance::broken(out.contract, out.difference);
  if (!training.bf16 || !may_be_rounding(out)) return out;
  if (const auto ours = trainings.rounding_of_bf16(options.split, here)) {
    judge_beside(out, *ours,
                 conformance::difference(there, train_there(options, training, false, folder)));
  }
  return out;
}

}  // namespace convoy::cli
