#include "cli/train/train_run.h"

#include "cli/plan/planned.h"
#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/bench/pace.h"
#include "convoy/launch/error_file.h"
#include "convoy/launch/process.h"
#include "convoy/launch/stop_signal.h"
#include "convoy/report/progress_output.h"
#include "convoy/tasks/metrics_table.h"
#include "convoy/train/state.h"

namespace convoy::cli {

namespace {

Trained stopped(const train::Trainer& trainer) {
  const int signal = trainer.stopped_by();
  launch::write_error_file(trainer.job().environment, "Stopped",
                           fmt::format("stopped by {} after step {}", launch::signal_name(signal),
                                       trainer.state().global_step));
  return {128 + signal, {}};
}

}  // namespace

Trained train_run(Configured& configured, const job::Job& job, const Start& start,
                  const std::string& plan) {
  const auto& arguments = configured.training;
  const bool tells = job.is_main() && !arguments.output.quiet;
  configured.task->begin_with(start.weights);
  auto run = configured.task->prepare(arguments.parallel);
  configured.note_flags(run);
  run.files.texts["run.toml"] = configured.table.to_kept_toml();
  if (!plan.empty()) run.files.texts[kPlanFile] = plan;
  run.files.texts.insert(start.texts.begin(), start.texts.end());
  train::Trainer trainer(run.factory, arguments, run.train_data, run.valid_data, job, run.fill);
  if (!start.weights.empty()) trainer.load_weights(start.weights);
  if (!start.moments.empty()) trainer.load_moments(start.moments);
  if (job.is_main()) tell(*run.notes);  // quiet, too: what is cut or unknown is no progress
  trainer.set_files(run.files);
  trainer.set_scorer(run.scorer);
  trainer.set_pace(bench::step_pace(run.flops_per_sample, trainer, arguments));
  if (run.begin) trainer.before_first_step([&] { run.begin(trainer); });
  trainer.stop_on(launch::note_stop_signals);
  trainer.train();
  if (trainer.stopped_by() != 0) return stopped(trainer);
  if (!run.valid_data || !start.evaluates) return {};
  const bool is_new = !trainer.evaluated_last_step();
  Trained out{.evaluated = trainer.evaluate_end()};
  if (trainer.stopped_by() != 0) {
    if (tells) {
      report::show_progress(fmt::format(
          "stopped by {} in the evaluation of the trained model, which is saved; try convoy eval\n",
          launch::signal_name(trainer.stopped_by())));
    }
    return stopped(trainer);
  }
  // Evaluations during the training had a line each; a table is worth its place at the end.
  if (tells && (is_new || !tasks::metrics_table(out.evaluated).empty())) {
    report::show_progress(tasks::evaluation_text("evaluated", out.evaluated));
  }
  return out;
}

}  // namespace convoy::cli
