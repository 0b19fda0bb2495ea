#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/train/checkpoints.h"
#include "convoy/train/run_files.h"

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

bool resumes(const TrainingArguments& arguments) {
  const auto& from = arguments.resume_from_checkpoint;
  return !from.empty() && from != "false" && from != "False";
}

/// Rank 0 looks at the files, and all go on from where it says.
std::optional<TrainerState> Checkpoints::resume(const TrainerState& fresh) {
  if (dir_.empty() && resume_from_.empty()) return std::nullopt;
  const Json found = comm::ask_main(job_.group, "look for a checkpoint", [&]() -> Json {
    if (!dir_.empty()) open_output();
    const auto folder = checkpoint_to_resume();
    return folder.empty() ? Json() : look_at(folder, fresh);
  });
  if (!dir_.empty()) tell_who_shares();
  if (found.is_null()) return std::nullopt;
  resumed_from_ = found.at("folder").get<std::string>();
  const fs::path folder = resumed_from_;
  const auto& group = strategy_.processes();
  checkpoint::load_weights(folder, strategy_.weights(), group);
  checkpoint::load_optimizer(folder / kOptimizer, strategy_.moments(), group);
  strategy_.share(/*moments=*/true);
  return TrainerState::from_json(found.at("state"), resumed_from_);
}

/// Before hours of work come to the first checkpoint.
void Checkpoints::tell_who_shares() {
  const auto sees = checkpoint::who_sees(dir_ / ".lock", job_.group);
  std::vector<int> blind;
  for (int rank = 0; rank < job_.group.size(); ++rank) {
    if (!sees[static_cast<size_t>(rank)]) blind.push_back(rank);
  }
  if (blind.empty() || !sees[0]) return;
  audience_.say(
      fmt::format("output.dir = {} of rank 0's host is not seen by rank{} {}: what they keep "
                  "goes there over the network with each checkpoint",
                  dir_.string(), blind.size() > 1 ? "s" : "", fmt::join(blind, ", ")));
}

/// Takes output.dir for this run alone, in the state that the last one left or anew.
void Checkpoints::open_output() {
  std::error_code error;
  if (fs::exists(dir_, error) && !fs::is_directory(dir_, error)) {
    fail<UsageError>("train", "output.dir = {} is a file; expected a folder", dir_.string());
  }
  check_inputs();
  lock_output();
  if (const auto own = checkpoint_of_this_job(); !own.empty()) {
    resume_from_ = own.string();
    audience_.say(fmt::format("start {}: going on from {}", job_.environment.restart_count + 1,
                              own.string()));
  }
  check_output();
  if (!arguments_.output.overwrite || !resume_from_.empty()) return;
  put_old_run_aside();
  if (arguments_.report_to == "tensorboard") remove_events(arguments_.events_folder());
}

/// Until this run has saved; what is in the folder itself is this run's alone, also after a kill.
void Checkpoints::put_old_run_aside() {
  if (!holds_run()) return;  // what a run that saved nothing put aside stays
  const auto aside = dir_ / kReplaced;
  remove_whole(aside);
  make_folder(aside);
  std::error_code error;
  const auto move = [&](const fs::path& path) {
    if (!fs::exists(path, error)) return;
    fs::rename(path, aside / path.filename(), error);
    if (!error) return;
    fail<FileError>("train", "cannot put {} of the old run aside into {}: {}", path.string(),
                    aside.string(), error.message());
  };
  for (const auto& name : own_names()) {
    const auto old = dir_ / name;
    const bool still_read =
        std::any_of(files_.copies.begin(), files_.copies.end(),
                    [&](const auto& file) { return same_file(file.path, old); });
    if (still_read) {
      checkpoint::copy_into(old, aside / name);
    } else {
      move(old);
    }
  }
  for (const char* name : kResults) move(dir_ / name);
  for (const char* name : {kConfig, kState}) move(dir_ / name);
  for (const auto& [step, path] : checkpoint::list_checkpoints(dir_)) move(path);
  // Last: a kill before leaves a folder that is known to hold a run.
  for (const auto& path : formats::list_weights(dir_)) move(path);
  audience_.say(fmt::format("the run that {} held is in {} until this one has saved", dir_.string(),
                            aside.string()));
}

void Checkpoints::remove_old_run() const {
  if (arguments_.output.overwrite) remove_whole(dir_ / kReplaced);
}

void Checkpoints::lock_output() {
  // Of a job that starts again, a rank that was given up may still have a moment to live.
  auto patience =
      std::chrono::milliseconds(job_.environment.restart_count > 0
                                    ? std::min<int64_t>(30, arguments_.parallel.timeout / 2) * 1000
                                    : 0);
  constexpr std::chrono::milliseconds kPause{100};
  for (lock_ = FolderLock(dir_); !lock_.holder().empty(); lock_ = FolderLock(dir_)) {
    if (patience.count() <= 0) {
      fail<UsageError>("train",
                       "output.dir = {} is in use by {}; try another folder, or wait until that "
                       "run has ended",
                       dir_.string(), lock_.holder());
    }
    std::this_thread::sleep_for(kPause);
    patience -= kPause;
  }
  if (!lock_.held()) {
    audience_.warn(fmt::format("{} cannot be locked ({}): make sure that no other run writes there",
                               dir_.string(), lock_.trouble()));
    return;
  }
  std::vector<std::string> own{"checkpoint-", "model", kState, kConfig, kReplaced};
  own.insert(own.end(), std::begin(kResults), std::end(kResults));
  const auto names = own_names();
  own.insert(own.end(), names.begin(), names.end());
  remove_unfinished(dir_, own);
}

/// Before each time that something is written.
void Checkpoints::keep_output() {
  if (!lock_.held() || lock_.in_place()) return;
  lock_ = FolderLock(dir_);
  if (!lock_.holder().empty()) {
    fail<FileError>("train",
                    "output.dir = {} was moved away while this run went on, and now it is in use "
                    "by {}; what was saved before lies where it was moved to; try to go on from "
                    "there with --resume_from_checkpoint and another folder",
                    dir_.string(), lock_.holder());
  }
  audience_.warn(
      fmt::format("{} was moved away while this run goes on: what it saves from now on "
                  "goes to a new folder of that name",
                  dir_.string()));
}

void Checkpoints::check_inputs() const {
  std::error_code error;
  for (const auto& input : files_.inputs) {
    if (input.empty()) continue;
    const auto folder =
        fs::is_directory(input, error) ? fs::path(input) : fs::path(input).parent_path();
    if (!same_file(dir_, folder.empty() ? "." : folder)) continue;
    fail<UsageError>("train",
                     "output.dir = {} is the folder of the data {}; a run writes files of its own; "
                     "try another folder, such as runs/first",
                     dir_.string(), input);
  }
}

/// Of the small files that this run writes, or that would pass for its own.
std::vector<std::string> Checkpoints::own_names() const {
  std::vector<std::string> names;
  if (!files_.config.is_null()) names.emplace_back(kConfig);
  for (const auto& [name, text] : files_.texts) names.push_back(name);
  for (const auto& file : files_.copies) names.push_back(file.name);
  names.insert(names.end(), files_.looked_for.begin(), files_.looked_for.end());
  return names;
}

/// Whether this run would write that file as it is.
bool Checkpoints::would_write(const fs::path& file) const {
  const auto text = files_.texts.find(file.filename().string());
  if (text != files_.texts.end()) return read_regular_file(file) == text->second;
  for (const auto& copy : files_.copies) {
    if (copy.name != file.filename()) continue;
    return same_file(copy.path, file) || read_regular_file(copy.path) == read_regular_file(file);
  }
  return false;
}

bool Checkpoints::holds_run() const {
  std::error_code error;
  return holds_model() || fs::exists(dir_ / kState, error) || checkpoint::latest_checkpoint(dir_);
}

void Checkpoints::check_output() const {
  std::error_code error;
  if (holds_run() || fs::exists(dir_ / kReplaced, error)) {
    if (!arguments_.output.overwrite && resume_from_.empty()) {
      fail<UsageError>("train",
                       "output.dir = {} already holds a run; try --resume_from_checkpoint "
                       "latest, --overwrite_output_dir, or another folder",
                       dir_.string());
    }
    if (holds_run() || !resume_from_.empty()) return;
  }
  const auto& wanted = files_.looked_for;
  for (const auto& name : own_names()) {
    const auto file = dir_ / name;
    if (!fs::exists(file, error) || would_write(file)) continue;
    const bool read = std::find(wanted.begin(), wanted.end(), name) != wanted.end();
    fail<UsageError>("train",
                     "output.dir = {} holds no run, but a file {} that {}; try another folder, or "
                     "move that file away",
                     dir_.string(), name,
                     read ? "would pass for this run's" : "this run would replace");
  }
}

/// The ranks were started again: the job goes on where it saved last, unless that is forbidden
/// (resume_from_checkpoint = false). Other checkpoints in the folder are another job's. Empty when
/// there is none.
fs::path Checkpoints::checkpoint_of_this_job() const {
  const auto& asked = arguments_.resume_from_checkpoint;
  if (job_.environment.restart_count == 0 || (!asked.empty() && !resumes(arguments_))) return {};
  const auto& id = job_.environment.job_id;
  auto all = checkpoint::list_checkpoints(dir_);
  for (auto it = all.rbegin(); it != all.rend(); ++it) {
    if (id.empty() || read_state(it->second).job_id == id) return it->second;
  }
  return {};
}

fs::path Checkpoints::checkpoint_to_resume() const {
  if (resume_from_ != "latest") {
    const auto latest = checkpoint::latest_checkpoint(resume_from_);
    if (!latest) return resume_from_;
    fail<UsageError>("train",
                     "resume_from_checkpoint = {} is a run's folder; try its checkpoint {}",
                     resume_from_, latest->string());
  }
  if (auto latest = checkpoint::latest_checkpoint(dir_)) return *latest;
  fail<UsageError>("train",
                   "there is no checkpoint in {}; expected a folder checkpoint-<step>; "
                   "try without --resume_from_checkpoint",
                   dir_.string());
}

/// Looks whether a checkpoint fits this run, and returns its state.
Json Checkpoints::look_at(const fs::path& folder, const TrainerState& fresh) const {
  auto saved = read_state(folder);
  check_same_model(folder);
  if (!saved.encoding.empty() && saved.encoding != fresh.encoding) {
    fail<UsageError>("train",
                     "{} was trained with the {}, this run has {}: the same ids would stand for "
                     "something else; try that one, or start anew",
                     folder.string(), saved.encoding,
                     fresh.encoding.empty() ? "none" : "the " + fresh.encoding);
  }
  if (saved.num_rows != fresh.num_rows || saved.data_seed != fresh.data_seed) {
    fail<UsageError>("train",
                     "{} was made with {} rows and data seed {}; got {} rows and data "
                     "seed {}; try the same data and seed, or start anew",
                     folder.string(), saved.num_rows, saved.data_seed, fresh.num_rows,
                     fresh.data_seed);
  }
  if (saved.epoch_position > 0 && saved.data_order != fresh.data_order) {
    fail<UsageError>(
        "train",
        "{} stands in mid-epoch, and its order of samples ({}) is not this run's ({}); try the "
        "same files, data.shuffle_window and data.partition (and with row_groups the same number "
        "of ranks), or resume from the end of an epoch",
        folder.string(), saved.data_order, fresh.data_order);
  }
  saved.best_model_checkpoint = best_seen_from_here(folder / "..", saved.best_model_checkpoint);
  return {{"folder", folder.string()}, {"state", saved.to_json()}};
}

/// The best checkpoint that a state of `run` names, as this run's state names it.
std::string Checkpoints::best_seen_from_here(const fs::path& run, const std::string& best) const {
  if (best.empty()) return "";
  std::error_code error;
  auto place = run / best;
  if (!fs::exists(place, error)) place = run / fs::path(best).filename();  // it moved with its run
  if (same_file(place.parent_path(), dir_)) return place.filename().string();
  return fs::weakly_canonical(place).string();
}

void Checkpoints::check_same_model(const fs::path& checkpoint) const {
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

}  // namespace convoy::train
