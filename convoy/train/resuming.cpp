#include <chrono>
#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/train/run_files.h"
#include "convoy/train/trainer.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

/// Curves of the run that is replaced would lie over the new ones.
void remove_events(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) fs::remove(entry.path(), error);
  }
}

TrainerState read_state(const fs::path& folder) {
  const auto path = folder / kState;
  return TrainerState::from_json(parse_json(read_file(path), path.string()), path.string());
}

}  // namespace

/// Rank 0 looks at the files, and all go on from where it says.
void Trainer::resume() {
  if (arguments_.output.dir.empty() && arguments_.resume_from_checkpoint.empty()) return;
  const Json found = comm::ask_main(job_.group, "look for a checkpoint", [&]() -> Json {
    if (!arguments_.output.dir.empty()) open_output();
    const auto folder = checkpoint_to_resume();
    return folder.empty() ? Json() : look_at_checkpoint(folder);
  });
  if (found.is_null()) return;
  load_state(found.at("folder").get<std::string>());
  resumed_from_ = found.at("folder").get<std::string>();
  auto saved = TrainerState::from_json(found.at("state"), resumed_from_);
  if (best_.forget_other_metric(saved)) {
    say(fmt::format("warning: {} counted another metric; the best evaluation starts anew with {}",
                    resumed_from_, best_.full_name()));
  }
  const auto fresh = std::exchange(state_, saved);
  state_.max_steps = fresh.max_steps;
  state_.num_train_epochs = fresh.num_train_epochs;
  state_.step_samples = fresh.step_samples;
  state_.data_order = fresh.data_order;
  state_.job_id = fresh.job_id;
}

/// Takes output.dir for this run alone, in the state that the last one left or anew.
void Trainer::open_output() {
  const auto& output = arguments_.output;
  const fs::path dir = output.dir;
  std::error_code error;
  if (fs::exists(dir, error) && !fs::is_directory(dir, error)) {
    fail<UsageError>("train", "output.dir = {} is a file; expected a folder", dir.string());
  }
  check_inputs(dir);
  lock_output();
  if (const auto own = checkpoint_of_this_job(); !own.empty()) {
    arguments_.resume_from_checkpoint = own.string();
    say(fmt::format("start {}: going on from {}", job_.environment.restart_count + 1,
                    own.string()));
  }
  check_output(dir);
  if (!output.overwrite || !arguments_.resume_from_checkpoint.empty()) return;
  for (const auto& [step, path] : checkpoint::list_checkpoints(dir)) remove_whole(path);
  // The old model, too: after a kill it would lie beside the new run's checkpoints.
  formats::remove_weights(dir);
  for (const char* old : {kState, kConfig}) fs::remove(dir / old, error);
  for (const char* old : kResults) fs::remove(dir / old, error);
  if (arguments_.report_to == "tensorboard") remove_events(arguments_.events_folder());
}

void Trainer::lock_output() {
  const fs::path dir = arguments_.output.dir;
  // Of a job that starts again, a rank that was given up may still have a moment to live.
  auto patience =
      std::chrono::milliseconds(job_.environment.restart_count > 0
                                    ? std::min<int64_t>(30, arguments_.parallel.timeout / 2) * 1000
                                    : 0);
  constexpr std::chrono::milliseconds kPause{100};
  for (lock_ = FolderLock(dir); !lock_.holder().empty(); lock_ = FolderLock(dir)) {
    if (patience.count() <= 0 || (stop_signal_ != nullptr && stop_signal_->load() != 0)) {
      fail<UsageError>("train",
                       "output.dir = {} is in use by {}; try another folder, or wait until that "
                       "run has ended",
                       dir.string(), lock_.holder());
    }
    std::this_thread::sleep_for(kPause);
    patience -= kPause;
  }
  if (!lock_.held()) {
    warn(fmt::format("{} cannot be locked ({}): make sure that no other run writes there",
                     dir.string(), lock_.trouble()));
    return;
  }
  std::vector<std::string> own{"checkpoint-", "model", kState, kConfig};
  own.insert(own.end(), std::begin(kResults), std::end(kResults));
  for (const auto& [name, text] : files_.texts) own.push_back(name);
  for (const auto& file : files_.copies) own.push_back(file.filename().string());
  remove_unfinished(dir, own);
}

void Trainer::check_inputs(const fs::path& dir) const {
  std::error_code error;
  for (const auto& input : files_.inputs) {
    const auto folder =
        fs::is_directory(input, error) ? fs::path(input) : fs::path(input).parent_path();
    if (!same_file(dir, folder.empty() ? "." : folder)) continue;
    fail<UsageError>("train",
                     "output.dir = {} is the folder of the data {}; a run writes files of its own; "
                     "try another folder, such as runs/first",
                     dir.string(), input);
  }
}

void Trainer::check_output(const fs::path& dir) const {
  std::error_code error;
  if (holds_model() || fs::exists(dir / kState, error) || checkpoint::latest_checkpoint(dir)) {
    if (arguments_.output.overwrite || !arguments_.resume_from_checkpoint.empty()) return;
    fail<UsageError>("train",
                     "output.dir = {} already holds a run; try --resume_from_checkpoint "
                     "latest, --overwrite_output_dir, or another folder",
                     dir.string());
  }
  std::vector<fs::path> files;
  if (!files_.config.is_null()) files.emplace_back(kConfig);
  for (const auto& [name, text] : files_.texts) files.emplace_back(name);
  for (const auto& file : files_.copies) files.push_back(file.filename());
  for (const auto& file : files) {
    if (!fs::exists(dir / file, error)) continue;
    fail<UsageError>("train",
                     "output.dir = {} holds no run, but a file {} that this run would replace; "
                     "try another folder",
                     dir.string(), file.string());
  }
}

/// The ranks were started again: the job goes on where it saved last, unless that is forbidden
/// (resume_from_checkpoint = false). Other checkpoints in the folder are another job's. Empty when
/// there is none.
fs::path Trainer::checkpoint_of_this_job() {
  if (job_.environment.restart_count == 0 || !may_resume_) return {};
  const auto& id = job_.environment.job_id;
  auto all = checkpoint::list_checkpoints(arguments_.output.dir);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (id.empty() || read_state(it->second).job_id == id) return it->second;
  }
  return {};
}

fs::path Trainer::checkpoint_to_resume() {
  if (arguments_.resume_from_checkpoint != "latest") return arguments_.resume_from_checkpoint;
  if (auto latest = checkpoint::latest_checkpoint(arguments_.output.dir)) return *latest;
  fail<UsageError>("train",
                   "there is no checkpoint in {}; expected a folder checkpoint-<step>; "
                   "try without --resume_from_checkpoint",
                   arguments_.output.dir);
}

/// Looks whether a checkpoint fits this run, and returns its state.
Json Trainer::look_at_checkpoint(const fs::path& folder) {
  auto saved = read_state(folder);
  check_same_model(folder);
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
  saved.best_model_checkpoint = best_seen_from_here(folder / "..", saved.best_model_checkpoint);
  return {{"folder", folder.string()}, {"state", saved.to_json()}};
}

/// The best checkpoint that a state of `run` names, as this run's state names it.
std::string Trainer::best_seen_from_here(const fs::path& run, const std::string& best) const {
  if (best.empty()) return "";
  std::error_code error;
  auto place = run / best;
  if (!fs::exists(place, error)) place = run / fs::path(best).filename();  // it moved with its run
  if (same_file(place.parent_path(), arguments_.output.dir)) return place.filename().string();
  return fs::weakly_canonical(place).string();
}

bool Trainer::holds_model() const {
  return !arguments_.output.dir.empty() && formats::has_weights(arguments_.output.dir);
}

void Trainer::check_same_model(const fs::path& checkpoint) const {
  const auto path = checkpoint / kConfig;
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

/// Each rank reads what it keeps.
void Trainer::load_weights(const fs::path& folder) {
  checkpoint::load_weights(folder, strategy_->weights(), strategy_->processes());
  strategy_->share(/*moments=*/false);
}

void Trainer::load_state(const fs::path& checkpoint) {
  const auto& group = strategy_->processes();
  checkpoint::load_weights(checkpoint, strategy_->weights(), group);
  checkpoint::load_optimizer(checkpoint / kOptimizer, strategy_->moments(), group);
  strategy_->share(/*moments=*/true);
}

}  // namespace convoy::train
