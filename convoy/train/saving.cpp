#include <ATen/Functions.h>
#include <sys/stat.h>

#include <fstream>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/launch/process.h"
#include "convoy/train/clock.h"
#include "convoy/train/trainer.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr const char* kState = "trainer_state.json";

void copy_into(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) return;
  AtomicFile file(to);
  fs::copy_file(from, file.temporary(), fs::copy_options::overwrite_existing, error);
  if (error) {
    fail<FileError>("train", "cannot copy {} to {}: {}", from.string(), to.string(),
                    error.message());
  }
  file.commit();
}

/// When a file was last written, in seconds since 1970; 0 when that cannot be found out.
double seconds_of(const fs::path& path) {
  struct stat facts{};
  if (::stat(path.c_str(), &facts) != 0) return 0;
  return static_cast<double>(facts.st_mtim.tv_sec) +
         static_cast<double>(facts.st_mtim.tv_nsec) * 1e-9;
}

/// Curves of the run that is replaced would lie over the new ones.
void remove_events(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) fs::remove(entry.path(), error);
  }
}

}  // namespace

void Trainer::check_output() {
  const auto& output = arguments_.output;
  if (output.dir.empty()) return;
  const fs::path dir = output.dir;
  std::error_code error;
  if (fs::exists(dir, error) && !fs::is_directory(dir, error)) {
    fail<UsageError>("train", "output.dir = {} is a file; expected a folder", dir.string());
  }
  const bool holds_run = formats::has_weights(dir) || fs::exists(dir / kState, error) ||
                         checkpoint::latest_checkpoint(dir).has_value();
  if (holds_run && !output.overwrite && arguments_.resume_from_checkpoint.empty()) {
    fail<UsageError>("train",
                     "output.dir = {} already holds a run; try --resume_from_checkpoint "
                     "latest, --overwrite_output_dir, or another folder",
                     dir.string());
  }
  job_.group.barrier("check output folder");
  if (!job_.is_main()) return;
  if (output.overwrite && arguments_.resume_from_checkpoint.empty()) {
    for (const auto& [step, path] : checkpoint::list_checkpoints(dir)) fs::remove_all(path, error);
    for (const char* old : {"all_results.json", "train_results.json", "eval_results.json"}) {
      fs::remove(dir / old, error);
    }
    if (arguments_.report_to == "tensorboard") remove_events(arguments_.events_folder());
  }
  // Finds out now, not after hours, whether the folder can be written.
  write_file(dir / ".writable", "");
  remove_unfinished(dir, "checkpoint-");
  fs::remove(dir / ".writable", error);
}

/// The ranks were started again: the job goes on where it saved last, unless that is forbidden
/// (resume_from_checkpoint = false). Older checkpoints in the folder are another job's.
void Trainer::resume_after_restart() {
  const auto& env = job_.environment;
  if (env.restart_count == 0 || !may_resume_ || arguments_.output.dir.empty()) return;
  auto step = at::full({1}, -1, at::kLong);
  if (job_.is_main()) {
    for (const auto& [saved, folder] : checkpoint::list_checkpoints(arguments_.output.dir)) {
      if (seconds_of(folder / kState) >= env.job_start) step.fill_(saved);
    }
  }
  job_.group.broadcast(step, 0, "find checkpoint");
  if (step.item<int64_t>() < 0) return;
  arguments_.resume_from_checkpoint = checkpoint_path(step.item<int64_t>()).string();
  say(fmt::format("start {}: going on from {}", env.restart_count + 1,
                  arguments_.resume_from_checkpoint));
}

void Trainer::resume() {
  auto from = arguments_.resume_from_checkpoint;
  if (from.empty()) return;
  fs::path folder = from;
  if (from == "latest") {
    auto latest = checkpoint::latest_checkpoint(arguments_.output.dir);
    if (!latest) {
      fail<UsageError>("train",
                       "there is no checkpoint in {}; expected a folder checkpoint-<step>; "
                       "try without --resume_from_checkpoint",
                       arguments_.output.dir);
    }
    folder = *latest;
  }
  auto path = folder / kState;
  auto saved = TrainerState::from_json(parse_json(read_file(path), path.string()), path.string());
  check_same_model(folder);
  checkpoint::load_weights(folder, strategy_->main());
  checkpoint::load_optimizer(folder / kOptimizer, strategy_->main());
  strategy_->share_model();
  if (saved.num_rows != state_.num_rows || saved.data_seed != state_.data_seed) {
    fail<UsageError>("train",
                     "{} was made with {} rows and data seed {}; got {} rows and data "
                     "seed {}; try the same data and seed, or start anew",
                     folder.string(), saved.num_rows, saved.data_seed, state_.num_rows,
                     state_.data_seed);
  }
  if (saved.epoch_position > 0 && saved.data_order != state_.data_order) {
    fail<UsageError>(
        "train",
        "{} stands in mid-epoch, and its order of samples ({}) is not this run's ({}); try the "
        "same files, data.shuffle_window and data.partition (and with row_groups the same number "
        "of ranks), or resume from the end of an epoch",
        folder.string(), saved.data_order, state_.data_order);
  }
  if (const auto& best = saved.best_model_checkpoint;
      !best.empty() && !fs::exists(best)) {  // it moved with its run
    const auto beside = folder / ".." / fs::path(saved.best_model_checkpoint).filename();
    saved.best_model_checkpoint = beside.lexically_normal().string();
  }
  if (best_.forget_other_metric(saved)) {
    say(fmt::format("warning: {} counted another metric; the best evaluation starts anew with {}",
                    folder.string(), best_.full_name()));
  }
  auto fresh = state_;
  state_ = saved;
  state_.max_steps = fresh.max_steps;
  state_.num_train_epochs = fresh.num_train_epochs;
  state_.step_samples = fresh.step_samples;
  state_.data_order = fresh.data_order;
  resumed_from_ = folder.string();
}

bool Trainer::holds_model() const {
  return !arguments_.output.dir.empty() && formats::has_weights(arguments_.output.dir);
}

void Trainer::check_same_model(const fs::path& checkpoint) const {
  const auto path = checkpoint / "config.json";
  if (files_.config.is_null() || !fs::exists(path)) return;
  const auto saved = parse_json(read_file(path), path.string());
  std::vector<std::string> different;
  for (const auto& [key, value] : files_.config.items()) {
    if (!saved.contains(key)) {
      different.push_back(fmt::format("{} = {}, which it does not name", key, value.dump()));
    } else if (saved.at(key) != value) {
      different.push_back(
          fmt::format("{} = {} instead of {}", key, value.dump(), saved[key].dump()));
    }
  }
  if (different.empty()) return;
  fail<UsageError>("train", "{} holds another model: this run has {}; try the same [model] options",
                   checkpoint.string(), join(different));
}

void Trainer::save_model_files(const fs::path& folder) {
  if (!files_.config.is_null()) write_file(folder / "config.json", files_.config.dump(2) + "\n");
  for (const auto& [name, text] : files_.texts) write_file(folder / name, text);
  for (const auto& file : files_.copies) copy_into(file, folder / file.filename());
  checkpoint::save_weights(folder, strategy_->main());
}

fs::path Trainer::checkpoint_path(int64_t step) const {
  return fs::path(arguments_.output.dir) / fmt::format("checkpoint-{}", step);
}

/// What is saved must be worth coming back to.
void Trainer::check_weights() {
  if (!job_.is_main()) return;
  const auto norm = at::linalg_vector_norm(strategy_->main().arena().masters()).item<double>();
  if (std::isfinite(norm)) return;
  fail<NumericError>("train",
                     "the weights after step {} are not finite on rank {}, so they are not saved; "
                     "the last good checkpoint stays; try a lower learning_rate",
                     state_.global_step, job_.environment.rank);
}

void Trainer::save_checkpoint() {
  if (arguments_.output.dir.empty()) return;
  const fs::path run = arguments_.output.dir;
  const auto final_path = checkpoint_path(state_.global_step);
  const Doing doing("save " + final_path.filename().string());
  inject_fault("saving");
  check_weights();
  if (state_.best_step == state_.global_step) state_.best_model_checkpoint = final_path.string();
  if (job_.is_main()) {
    AtomicFolder folder(final_path);
    save_model_files(folder.temporary());
    checkpoint::save_optimizer(folder.temporary() / kOptimizer, strategy_->main());
    write_file(folder.temporary() / kState, state_.to_json().dump(2) + "\n");
    folder.commit();
    if (arguments_.save_total_limit) {
      std::vector<fs::path> spare{final_path};
      if (arguments_.load_best_model_at_end) spare.push_back(state_.best_model_checkpoint);
      checkpoint::rotate_checkpoints(run, *arguments_.save_total_limit, spare);
    }
    notify([&](Callback& callback) { callback.on_save(final_path); });
  }
  job_.group.barrier("save checkpoint");
}

/// Leaves with what a later run needs to go on. An evaluation that is due would take too long: that
/// run makes it up.
void Trainer::stop_early(bool epoch_end, Clock& clock) {
  stopped_by_ = last_.stop_signal;
  state_.evaluation_owed = evaluation_is_due(epoch_end);
  std::string what = "nothing was saved";
  if (arguments_.save_strategy != "no" && !arguments_.output.dir.empty()) {
    clock.pause();
    save_checkpoint();
    clock.resume();
    what = fmt::format("saved {}; go on with --resume_from_checkpoint latest",
                       checkpoint_path(state_.global_step).string());
  }
  say(fmt::format("stopped by {} after step {}; {}", launch::signal_name(stopped_by_),
                  state_.global_step, what));
}

void Trainer::save_model() {
  if (arguments_.output.dir.empty()) return;
  const fs::path run = arguments_.output.dir;
  const Doing doing("save model");
  if (job_.is_main()) {
    save_model_files(run);
    write_file(run / kState, state_.to_json().dump(2) + "\n");
  }
  job_.group.barrier("save model");
}

void Trainer::save_metrics(const std::string& split, const Metrics& metrics) {
  if (arguments_.output.dir.empty() || !job_.is_main()) return;
  const fs::path run = arguments_.output.dir;
  write_file(run / (split + "_results.json"), Json(metrics).dump(4) + "\n");
  const auto all_path = run / "all_results.json";
  Json all = fs::exists(all_path) ? parse_json(read_file(all_path), all_path.string()) : Json();
  all.update(Json(metrics));
  write_file(all_path, all.dump(4) + "\n");
}

void Trainer::load_best_model() {
  if (!arguments_.load_best_model_at_end || state_.best_step < 0) return;
  const fs::path best = state_.best_model_checkpoint;
  if (state_.best_step != state_.global_step) {
    if (best.empty() || !formats::has_weights(best)) {
      say(
          fmt::format("warning: the checkpoint of the best step {} is not there ({}): the model is "
                      "that of the last step",
                      state_.best_step, best.empty() ? "never saved" : best.string()));
      return;
    }
    load_weights(best);
  }
  for (const auto& entry : state_.log_history) {
    if (!entry.contains("eval_loss") || entry.at("step") != state_.best_step) continue;
    eval_metrics_ = entry.get<Metrics>();
    eval_metrics_.erase("step");
    eval_metrics_.erase("epoch");
  }
  evaluated_step_ = state_.global_step;
  say(fmt::format("the model is the best one, of step {}: {} {:.4f}", state_.best_step,
                  best_.metric(), state_.best_metric));
}

void Trainer::load_weights(const fs::path& folder) {
  checkpoint::load_weights(folder, strategy_->main());
  strategy_->share_model();
}

}  // namespace convoy::train
