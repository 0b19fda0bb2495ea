#include "cli/verify_trainings.h"

#include <fmt/format.h>

#include "convoy/base/text.h"
#include "convoy/launch/process.h"

namespace convoy::cli {

namespace {

constexpr int kUsageError = 2;  // exit code

/// Settings with which a training logs each step, saves its state after the last, and does nothing
/// else.
void add_settings_of_record(Settings& out, const VerifyTrainings::Options& options, int num_ranks) {
  const auto steps = std::to_string(options.steps);
  const Settings more{{"train.max_steps", steps},
                      {"train.save_strategy", "steps"},
                      {"train.save_steps", steps},
                      {"train.save_total_limit", "none"},
                      {"train.logging_strategy", "steps"},
                      {"train.logging_steps", "1"},
                      {"train.eval_strategy", "no"},
                      {"train.eval_on_start", "false"},
                      {"train.load_best_model_at_end", "false"},
                      {"train.metric_for_best_model", ""},
                      {"train.early_stopping_patience", "0"},
                      {"train.resume_from_checkpoint", ""},
                      {"train.report_to", "none"},
                      {"train.auto_find_batch_size", "false"},
                      {"parallel.planned_ranks", "0"},
                      {"parallel.threads", std::to_string(options.threads)},
                      {"output.trace", ""},
                      {"output.events", ""},
                      {"output.quiet", "true"},
                      // State that several ranks hold is compared after each step.
                      {"train.check_replicas_steps", num_ranks > 1 ? "1" : "0"}};
  out.insert(out.end(), more.begin(), more.end());
  out.insert(out.end(), options.cut.begin(), options.cut.end());
}

}  // namespace

VerifyTrainings::VerifyTrainings(Configured& configured, Options options)
    : configured_(configured), options_(std::move(options)) {}

VerifyTrainings::Outcome VerifyTrainings::train(Settings settings, int num_ranks,
                                                const launch::ProcessOptions& process) const {
  const auto run = folder_.path() / "run";
  std::filesystem::remove_all(run);
  settings.emplace_back("output.dir", run.string());
  add_settings_of_record(settings, options_, num_ranks);
  auto argv = launch::this_program();
  argv.insert(argv.end(), {"train", folder_.write(configured_, settings)});
  if (num_ranks > 1) argv.insert(argv.end(), {"--nproc", std::to_string(num_ranks)});
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
  auto out = settings_of_run(split, configured_.table);
  out.emplace_back("parallel.backend", "auto");
  out.emplace_back("parallel.row_tables", "false");
  if (layout.threads) {
    out.emplace_back("parallel.strategy", "dp");
    out.emplace_back("parallel.replicas", std::to_string(split.data));
  }
  out.emplace_back("parallel.offload_dir", split.offloads() ? folder_.path().string() : "");
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
