#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/verify.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/checkpoints/saved_state.h"

// The checkpoint of the best evaluation: where it lies, and whether what lies there is it.
namespace convoy::train {
namespace fs = std::filesystem;

fs::path Checkpoints::best_path(const TrainerState& state) const {
  return dir_ / state.best_model_checkpoint;
}

/// Path of a checkpoint as this run's state names it.
std::string Checkpoints::seen_from_here(const fs::path& checkpoint) const {
  auto place = fs::absolute(checkpoint);
  if (!place.has_filename()) place = place.parent_path();  // "checkpoint-10/"
  if (same_file(place.parent_path(), dir_)) return place.filename().string();
  return fs::weakly_canonical(place).string();
}

/// Best checkpoint of the state of `from`, as this run's state names it.
std::string Checkpoints::best_seen_from_here(const fs::path& from,
                                             const TrainerState& saved) const {
  if (saved.best_step >= 0 && saved.best_step == saved.global_step) return seen_from_here(from);
  const fs::path named = saved.best_model_checkpoint;
  if (named.empty()) return "";
  // Also looks in the run's new folder, where the run was moved, and in this run's, where it goes
  // on from a copy.
  const auto run = from / "..", moved = run / named.filename();
  std::error_code error;
  for (const auto& place : {run / named, moved, dir_ / named.filename()}) {
    if (holds_best_of(saved, place)) return seen_from_here(place);
  }
  return seen_from_here(fs::exists(run / named, error) ? run / named : moved);
}

void Checkpoints::note_resumed_as_best(TrainerState& state) {
  const auto name = comm::ask_main(job_.world(), "name the best checkpoint",
                                   [&] { return Json(seen_from_here(resumed_from_)); });
  state.best_model_checkpoint = name.get<std::string>();
}

/// Reason why the best checkpoint of `state` cannot be loaded, as far as its state tells; else "".
std::string Checkpoints::lack_of_best(const TrainerState& state) const {
  const auto best = best_path(state);
  std::string why;
  if (state.best_model_checkpoint.empty()) {
    why = "never saved";
  } else if (!formats::has_weights(best)) {
    why = best.string();
  } else if (!holds_best_of(state, best)) {
    why = fmt::format("another branch or run has saved its own {} since", best.string());
  }
  return why.empty() ? "" : fmt::format("is not there ({})", why);
}

void Checkpoints::tell_lost_best(const TrainerState& state) {
  if (state.best_step < 0 || state.best_step == state.global_step) return;
  const std::string lack = comm::ask_main(job_.world(), "look for the best checkpoint",
                                          [&] { return Json(lack_of_best(state)); });
  if (lack.empty()) return;
  callbacks_.say(
      fmt::format("warning: the checkpoint of the best step {} {}: unless a later evaluation is "
                  "better, the model will be that of the last step",
                  state.best_step, lack));
}

/// Folder with the weights after the last step of `state`; "" where there is none.
fs::path Checkpoints::saved_place(const TrainerState& state) const {
  for (const auto& place : {path(state.global_step), fs::path(resumed_from_)}) {
    if (!place.empty() && holds_step_of(state, place)) return place;
  }
  return {};
}

bool Checkpoints::load_best(const TrainerState& state) {
  const auto best = best_path(state);
  const Json found = comm::ask_main(
      job_.world(), "look for the best checkpoint",
      [&]() -> Json {
        std::string lack = lack_of_best(state);
        const auto last = saved_place(state);
        if (lack.empty() && last.empty()) {  // there would be no way back
          const auto wrong = checkpoint::verify(best).wrong;
          if (!wrong.empty()) lack = fmt::format("is not whole ({})", join(wrong, "; "));
        }
        return {{"lack", lack}, {"last", last.string()}};
      },
      comm::Lasts::Long);
  std::string lack = found.at("lack");
  if (lack.empty()) {
    try {
      load_weights(best);
      return true;
    } catch (const FileError& error) {  // of all ranks
      const std::string last = found.at("last");
      if (last.empty()) throw;
      load_weights(last);
      lack = fmt::format("is not whole ({})", reason_of(error));
    }
  }
  callbacks_.say(
      fmt::format("warning: the checkpoint of the best step {} {}: the model is that of the last "
                  "step",
                  state.best_step, lack));
  return false;
}

/// Checkpoints of abandoned branches whose best checkpoint `state` will overwrite in `path`: runs
/// from there could no longer end with their best model.
std::vector<std::string> Checkpoints::lose_their_best(const fs::path& path,
                                                      const TrainerState& state) const {
  std::vector<std::string> out;
  std::error_code error;
  if (!fs::exists(path / kState, error)) return out;
  for (const auto& [step, other] : checkpoint::list_checkpoints(dir_)) {
    if (step <= state.global_step) continue;
    try {
      const auto later = read_state(other);
      if (!same_file(dir_ / later.best_model_checkpoint, path) || !holds_best_of(later, path) ||
          begins_with(later.log_history, state.log_history)) {
        continue;
      }
      out.push_back(other.filename().string());
    } catch (const FileError&) {
      // A checkpoint whose state cannot be read is passed over: no run resumes from it.
    }
  }
  return out;
}

}  // namespace convoy::train
