#include <algorithm>
#include <set>
#include <system_error>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"

// output.dir: whose it is, and what becomes of the run that it held.
namespace convoy::train {
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> events_in(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto name = entry.path().filename().string();
    if (name.starts_with("events.out.tfevents.")) out.push_back(entry.path());
  }
  return out;
}

}  // namespace

/// Locks output.dir for this run, and keeps or clears what the last run left.
void Checkpoints::open_output() {
  std::error_code error;
  if (fs::exists(dir_, error) && !fs::is_directory(dir_, error)) {
    fail<UsageError>("train", "output.dir = {} is a file; expected a folder", dir_.string());
  }
  check_inputs();
  lock_output();
  // Whether one of them is whole is found out when it is loaded.
  if (!checkpoints_of_this_job().empty()) resume_from_ = "latest";
  check_output();
  if (!arguments_.output.overwrite || goes_on()) return;
  put_old_run_aside();
  // Curves of a run that saved nothing would lie over the new ones.
  std::error_code ignored;
  if (arguments_.report_to != "tensorboard") return;
  for (const auto& file : events_in(arguments_.events_folder())) fs::remove(file, ignored);
}

/// Moves an old run aside until this run has saved, so that files in the folder itself are this
/// run's alone, also after a kill.
void Checkpoints::put_old_run_aside() {
  if (!holds_run()) return;  // what a run that saved nothing put aside stays
  const auto aside = dir_ / kReplaced;
  remove_whole(aside);
  make_folder(aside);
  std::error_code error;
  const auto move = [&](const fs::path& path, const fs::path& into) {
    if (!fs::exists(path, error)) return;
    fs::rename(path, into / path.filename(), error);
    if (error == std::errc::cross_device_link) {
      fs::copy_file(path, into / path.filename(), error);
      if (!error) fs::remove(path, error);
    }
    if (!error) return;
    fail<FileError>("train", "cannot put {} of the old run aside into {}: {}", path.string(),
                    into.string(), error.message());
  };
  for (const auto& name : own_names()) {
    const auto old = dir_ / name;
    const bool still_read =
        std::any_of(files_.copies.begin(), files_.copies.end(),
                    [&](const auto& file) { return same_file(file.path, old); });
    if (still_read) {
      checkpoint::copy_into(old, aside / name);
    } else {
      move(old, aside);
    }
  }
  std::set<fs::path> curves{dir_ / options::kEvents};
  if (arguments_.report_to == "tensorboard") curves.insert(arguments_.events_folder());
  make_folder(aside / options::kEvents);
  for (const auto& folder : curves) {
    for (const auto& file : events_in(folder)) move(file, aside / options::kEvents);
  }
  for (const char* name : kResults) move(dir_ / name, aside);
  for (const char* name : {kConfig, kState, checkpoint::kLineage}) move(dir_ / name, aside);
  // A device, or a link to what lies elsewhere, stays the log.
  if (fs::is_regular_file(fs::symlink_status(dir_ / kLog, error))) move(dir_ / kLog, aside);
  for (const auto& [step, path] : checkpoint::list_checkpoints(dir_)) move(path, aside);
  // Last: a kill before leaves a folder that is known to hold a run.
  for (const auto& path : formats::list_weights(dir_)) move(path, aside);
  callbacks_.say(fmt::format("the run that {} held is in {} until this one has saved",
                             dir_.string(), aside.string()));
}

/// Removes the old run, unless this run went back to it, or still needs its `best` checkpoint.
void Checkpoints::remove_old_run(const fs::path& best) const {
  const auto aside = fs::weakly_canonical(dir_ / kReplaced);
  const auto lies_there = [&](const fs::path& path) {
    const auto place = fs::weakly_canonical(path);
    return std::mismatch(aside.begin(), aside.end(), place.begin(), place.end()).first ==
           aside.end();
  };
  if (!arguments_.output.overwrite || lies_there(best)) return;
  if (!resumed_from_.empty() && lies_there(resumed_from_)) return;
  remove_whole(dir_ / kReplaced);
}

void Checkpoints::lock_output() {
  lock_ = job::lock_output_folder(dir_, job_, arguments_.parallel);
  if (!lock_.held()) {
    callbacks_.warn(
        fmt::format("{} cannot be locked ({}): make sure that no other run writes there",
                    dir_.string(), lock_.trouble()));
    return;
  }
  std::vector<std::string> own{std::string(checkpoint::kCheckpointName), "model", kState, kConfig,
                               kReplaced};
  own.insert(own.end(), std::begin(kResults), std::end(kResults));
  const auto names = own_names();
  own.insert(own.end(), names.begin(), names.end());
  remove_unfinished(dir_, own);
}

/// Creates and locks the output folder again where it was moved away; called before each write.
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
  callbacks_.notify([](Callback& callback) { callback.on_new_output(); });
  callbacks_.warn(
      fmt::format("{} was moved away while this run goes on: what it saves and logs from "
                  "now on goes to a new folder of that name",
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

/// Names of the small files that this run writes, or that could be taken for its own.
std::vector<std::string> Checkpoints::own_names() const {
  std::vector<std::string> names;
  if (!files_.config.is_null()) names.emplace_back(kConfig);
  for (const auto& [name, text] : files_.texts) names.push_back(name);
  for (const auto& file : files_.copies) names.push_back(file.name);
  names.insert(names.end(), files_.looked_for.begin(), files_.looked_for.end());
  return names;
}

/// Whether a file has the content that this run would write.
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
    if (!arguments_.output.overwrite && !goes_on()) {
      fail<UsageError>("train",
                       "output.dir = {} already holds a run; try --resume_from_checkpoint "
                       "latest, --overwrite_output_dir, or another folder",
                       dir_.string());
    }
    if (holds_run() || goes_on()) return;
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

}  // namespace convoy::train
