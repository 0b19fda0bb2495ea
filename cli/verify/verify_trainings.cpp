#include "cli/verify/verify_trainings.h"

#include <fmt/format.h>

#include <csignal>

#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/launch/error_file.h"
#include "convoy/launch/process.h"
#include "convoy/launch/supervise/agent.h"

namespace convoy::cli {

namespace {

constexpr int kUsageError = 2;          // exit codes
constexpr int kKilled = 128 + SIGKILL;  // for want of memory, most often
/// Flag of convoy train that skips the last evaluation, which these trainings do not need.
constexpr const char* kNoEvaluation = "--no-final-evaluation";

/// Settings with which a training logs each step, saves its state after the last, and does nothing
/// else.
void add_settings_of_record(Settings& out, const VerifyTrainings::Options& options, int num_ranks) {
  const auto trial = settings_of_trial();
  out.insert(out.end(), trial.begin(), trial.end());
  const auto steps = std::to_string(options.steps);
  const Settings more{{"train.max_steps", steps},
                      {"train.save_strategy", "steps"},
                      {"train.save_steps", steps},
                      {"train.save_total_limit", "none"},
                      {"train.logging_strategy", "steps"},
                      {"train.logging_steps", "1"},
                      {"train.resume_from_checkpoint", ""},
                      {"parallel.threads", std::to_string(options.threads)},
                      // State that several ranks hold is compared after each step.
                      {"train.check_replicas_steps", num_ranks > 1 ? "1" : "0"}};
  out.insert(out.end(), more.begin(), more.end());
  out.insert(out.end(), options.cut.begin(), options.cut.end());
}

/// End of a program: its exit code, and where that is not 0 the reason and its kind.
struct End {
  int code = 0;
  std::string reason;
  std::string kind = "";  ///< "FileError", "NumericError", ...; "": it told none
};

End run_alone(const std::vector<std::string>& argv, launch::ProcessOptions process,
              const std::filesystem::path& folder) {
  const auto errors = folder / "error.json";
  std::error_code ignored;
  std::filesystem::remove(errors, ignored);
  process.env["CONVOY_ERROR_FILE"] = errors.string();
  const auto result = launch::run_process(argv, process);
  if (result.ok()) return {};
  End out{.code = result.exit_code == 0 ? 1 : result.exit_code};
  if (const auto error = launch::read_error_file(errors)) {
    out.reason = first_line(error->error);
    out.kind = error->kind;
    return out;
  }
  constexpr std::string_view kBefore = "convoy: error: ";
  out.reason = first_line(trim(result.err));
  if (out.reason.starts_with(kBefore)) out.reason.erase(0, kBefore.size());
  return out;
}

/// Starts the ranks without a launcher, which saves a process and keeps the failing rank's own
/// message.
End run_ranks(const std::vector<std::string>& argv, int num_ranks,
              const std::filesystem::path& logs) {
  End out;
  launch::LaunchOptions options;
  options.num_ranks = num_ranks;
  options.command = argv;
  options.log_dir = logs;
  options.on_failure = [&](const launch::FailureReport& report) {
    const auto& culprit = report.culprit();
    out.reason = first_line(trim(culprit.error ? culprit.error->error : culprit.reason()));
    if (culprit.error) out.kind = culprit.error->kind;
  };
  out.code = launch::run_ranks(options);
  if (out.code > 128 && out.reason.empty()) std::raise(out.code - 128);  // it stopped us all
  return out;
}

}  // namespace

conformance::TrainingRecord record_of(const std::filesystem::path& run, int64_t steps) {
  return conformance::read_record(run, steps, run / checkpoint::name_of_checkpoint(steps));
}

VerifyTrainings::VerifyTrainings(Configured& configured, Options options)
    : configured_(configured), options_(std::move(options)) {}

VerifyTrainings::Outcome VerifyTrainings::train(Settings settings, int num_ranks,
                                                const launch::ProcessOptions& process) const {
  const auto run = folder_.path() / "run";
  std::filesystem::remove_all(run);
  settings.emplace_back("output.dir", run.string());
  add_settings_of_record(settings, options_, num_ranks);
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", folder_.write(configured_, settings), kNoEvaluation});
  const auto end = num_ranks > 1 ? run_ranks(argv, num_ranks, folder_.path() / "logs")
                                 : run_alone(argv, process, folder_.path());
  Outcome out;
  if (end.code != 0) {
    out.failure = end.reason.empty() ? "it failed without a message" : end.reason;
    out.refused = end.code == kUsageError;
    out.by_machine = end.kind == "FileError" || end.code == kKilled;
    return out;
  }
  out.record = record_of(run, options_.steps);
  std::filesystem::remove_all(run);  // what was opened stays readable
  return out;
}

VerifyTrainings::Outcome VerifyTrainings::train_reference(Settings settings) const {
  // A fault that is injected is not the reference's (docs/faults.md).
  return train(std::move(settings), 1, {.env = {{"CONVOY_FAULT", ""}}});
}

VerifyTrainings::Outcome VerifyTrainings::one_device(const parallel::Parallelism& split) const {
  return train_reference(settings_of_layout({split}));
}

std::optional<conformance::Difference> VerifyTrainings::rounding_of_bf16(
    const parallel::Parallelism& split, const conformance::TrainingRecord& in_bf16) const {
  auto settings = settings_of_layout({split});
  settings.emplace_back("train.bf16", "false");
  const auto exact = train_reference(std::move(settings));
  if (!exact.failure.empty()) return std::nullopt;
  return conformance::difference(in_bf16, exact.record);
}

Settings VerifyTrainings::settings_of_record(const parallel::Parallelism& split,
                                             const std::filesystem::path& run) const {
  auto out = settings_of_layout({split});
  out.emplace_back("output.dir", run.string());
  add_settings_of_record(out, options_, 1);
  return out;
}

std::string VerifyTrainings::write_start(const parallel::Parallelism& split,
                                         const std::filesystem::path& to) const {
  auto settings = settings_of_record(split, to);
  // A step that moves nothing.
  const Settings more{{"train.learning_rate", "0"},
                      {"train.lr_scheduler_type", "constant"},
                      {"train.max_steps", "1"},
                      {"train.save_strategy", "no"}};
  settings.insert(settings.end(), more.begin(), more.end());
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", folder_.write(configured_, settings), kNoEvaluation});
  return run_alone(argv, {.env = {{"CONVOY_FAULT", ""}}}, folder_.path()).reason;
}

VerifyTrainings::Outcome VerifyTrainings::as_configured(int num_ranks) const {
  return train({}, num_ranks);
}

VerifyTrainings::Outcome VerifyTrainings::in_layout(
    const conformance::TrainingLayout& layout) const {
  return train(settings_of_layout(layout), layout.threads ? 1 : layout.split.num_ranks());
}

Settings VerifyTrainings::settings_of_layout(const conformance::TrainingLayout& layout) const {
  const auto& split = layout.split;
  auto out = settings_of_run(split, configured_.table);
  out.emplace_back("parallel.backend", "auto");
  out.emplace_back("parallel.row_tables", "false");
  if (layout.threads) {
    out.emplace_back("parallel.strategy", "dp");
    out.emplace_back("parallel.replicas", std::to_string(split.ranks.data()));
  }
  out.emplace_back("parallel.offload_dir", split.offload.any() ? folder_.path().string() : "");
  return out;
}

Settings cut_layers(const OptionTable& table, int64_t layers) {
  Settings out;
  const auto* weights = table.find("model.model_name_or_path");
  if (weights != nullptr && !weights->plain().empty()) return out;
  for (const char* name : {"n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"}) {
    const auto key = fmt::format("model.{}", name);
    const auto* option = table.find(key);
    int64_t has = 0;
    if (option == nullptr || !parse_number(option->plain(), has) || has <= layers) continue;
    out.emplace_back(key, std::to_string(layers));
  }
  return out;
}

}  // namespace convoy::cli
