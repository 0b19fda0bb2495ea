#include "convoy/tasks/session/train_recommender.h"

#include <cstdio>

#include "convoy/report/progress_output.h"
#include "convoy/tasks/session/task.h"

namespace convoy::tasks {

std::map<std::string, double> train_recommender(
    const std::vector<std::pair<std::string, std::string>>& options) {
  SessionTask task;
  options::TrainingArguments arguments;
  OptionTable table;
  task.set_defaults(arguments);
  task.declare(table);
  arguments.declare(table);
  for (const auto& [name, value] : options) table.set(name, value, "train_recommender");
  table.check();
  arguments.check_effect();
  task.settle(table);
  arguments.parallel.share(table);
  auto run = task.prepare(arguments.parallel);
  run.files.texts["run.toml"] = table.to_kept_toml();
  train::Trainer trainer(run.factory, arguments, run.train_data, run.valid_data, run.fill);
  for (const auto& note : *run.notes) {
    if (trainer.job().is_main()) report::show_progress("  " + note + "\n", stderr);
  }
  trainer.set_files(run.files);
  trainer.set_scorer(run.scorer);
  const auto trained = trainer.train();
  return run.valid_data ? trainer.evaluate_end() : trained;
}

}  // namespace convoy::tasks
