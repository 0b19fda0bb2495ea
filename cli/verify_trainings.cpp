#include "cli/verify_trainings.h"

#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::cli {

namespace {

constexpr int kUsageError = 2;  // exit code

std::string flag(const std::string& key, const std::string& value) {
  return fmt::format("--{}={}", key, value);
}

/// Options with which a training logs each step, saves its state after the last, and does nothing
/// else.
std::vector<std::string> flags_of_record(const VerifyTrainings::Options& options, int num_ranks) {
  std::vector<std::string> out{flag("train.max_steps", std::to_string(options.steps)),
                               flag("train.save_strategy", "steps"),
                               flag("train.save_steps", std::to_string(options.steps)),
                               flag("train.save_total_limit", "none"),
                               flag("train.logging_strategy", "steps"),
                               flag("train.logging_steps", "1"),
                               flag("train.eval_strategy", "no"),
                               flag("train.eval_on_start", "false"),
                               flag("train.load_best_model_at_end", "false"),
                               flag("train.metric_for_best_model", ""),
                               flag("train.early_stopping_patience", "0"),
                               flag("train.resume_from_checkpoint", ""),
                               flag("train.report_to", "none"),
                               flag("train.auto_find_batch_size", "false"),
                               flag("parallel.planned_ranks", "0"),
                               flag("parallel.threads", std::to_string(options.threads)),
                               flag("output.trace", ""),
                               flag("output.events", ""),
                               flag("output.quiet", "true")};
  // What ranks hold twice is compared after each step.
  if (num_ranks > 1) out.push_back(flag("train.check_replicas_steps", "1"));
  out.insert(out.end(), options.cut.begin(), options.cut.end());
  return out;
}

}  // namespace

VerifyTrainings::VerifyTrainings(Configured& configured, Options options)
    : configured_(configured), options_(std::move(options)), file_(folder_.write(configured)) {}

VerifyTrainings::Outcome VerifyTrainings::train(const Settings& settings, int num_ranks,
                                                const launch::ProcessOptions& process) const {
  const auto run = std::filesystem::path(file_).parent_path() / "run";
  std::filesystem::remove_all(run);
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", file_, flag("output.dir", run.string())});
  if (num_ranks > 1) argv.insert(argv.end(), {"--nproc", std::to_string(num_ranks)});
  for (const auto& [key, value] : settings) argv.push_back(flag(key, value));
  const auto more = flags_of_record(options_, num_ranks);
  argv.insert(argv.end(), more.begin(), more.end());
  const auto result = launch::run_process(argv, process);
  Outcome out;
  if (!result.ok()) {
    out.failure = first_line(trim(result.err));
    if (out.failure.empty()) out.failure = "it failed without a message";
    out.refused = result.exit_code == kUsageError;
    return out;
  }
  out.record = conformance::read_record(run, options_.steps);
  std::filesystem::remove_all(run);  // what was opened stays readable
  return out;
}

VerifyTrainings::Outcome VerifyTrainings::one_device(const plan::Split& split) const {
  auto settings = settings_of_layout({split});
  // A fault that is injected is not the reference's (docs/faults.md).
  return train(settings, 1, {.env = {{"CONVOY_FAULT", ""}}});
}

VerifyTrainings::Outcome VerifyTrainings::as_configured(int num_ranks) const {
  return train({}, num_ranks);
}

VerifyTrainings::Outcome VerifyTrainings::in_layout(const conformance::Layout& layout) const {
  return train(settings_of_layout(layout), layout.threads ? 1 : layout.split.num_ranks());
}

Settings VerifyTrainings::settings_of_layout(const conformance::Layout& layout) const {
  const auto& split = layout.split;
  auto out = settings_of(split, configured_.table);
  const bool alone = split.num_ranks() == 1;
  out.emplace_back("parallel.strategy", layout.threads ? "dp" : alone ? "single" : "auto");
  out.emplace_back("parallel.backend", "auto");
  out.emplace_back("parallel.row_tables", "false");
  if (layout.threads) out.emplace_back("parallel.replicas", std::to_string(split.data));
  const auto folder = std::filesystem::path(file_).parent_path();
  out.emplace_back("parallel.offload_dir", split.offloads() ? folder.string() : "");
  return out;
}

std::vector<std::string> cut_layers(const OptionTable& table, int64_t layers) {
  std::vector<std::string> out;
  const auto* weights = table.find("model.model_name_or_path");
  if (weights != nullptr && !weights->plain().empty()) return out;
  for (const char* name : {"n_layer", "num_hidden_layers", "num_layers", "num_decoder_layers"}) {
    const auto key = fmt::format("model.{}", name);
    const auto* option = table.find(key);
    int64_t has = 0;
    if (option == nullptr || !parse_number(option->plain(), has) || has <= layers) continue;
    out.push_back(flag(key, std::to_string(layers)));
  }
  return out;
}

}  // namespace convoy::cli
