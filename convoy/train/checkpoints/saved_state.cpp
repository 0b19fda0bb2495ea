#include "convoy/train/checkpoints/saved_state.h"

#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/train/checkpoints/run_files.h"

namespace convoy::train {
namespace fs = std::filesystem;

TrainerState read_state(const fs::path& folder) {
  const auto path = folder / kState;
  return TrainerState::from_json(parse_json(read_file(path), path.string()), path.string());
}

TrainerState read_checked_state(const fs::path& checkpoint) {
  auto state = read_state(checkpoint);
  const auto wrong = checkpoint::Manifest::read(checkpoint).wrong_others(checkpoint);
  if (wrong.empty()) return state;
  fail<FileError>("train",
                  "{}: {}; try an earlier checkpoint, or remove manifest.json if somebody changed "
                  "it on purpose",
                  checkpoint.string(), join(wrong, "; "));
}

bool holds_step_of(const TrainerState& state, const fs::path& folder) {
  if (!formats::has_weights(folder)) return false;
  try {
    const auto there = read_state(folder);
    return there.global_step == state.global_step && there.total_loss_sum == state.total_loss_sum &&
           begins_with(state.log_history, there.log_history);
  } catch (const FileError&) {
    return false;
  }
}

bool holds_best_of(const TrainerState& state, const fs::path& folder) {
  if (!formats::has_weights(folder)) return false;
  try {
    const auto there = read_state(folder);
    if (there.global_step != state.best_step) return false;
    if (!begins_with(state.log_history, there.log_history)) return false;
    if (there.best_step == state.best_step) {
      return there.best_metric == state.best_metric &&
             there.best_metric_name == state.best_metric_name;
    }
    // Evaluated only when a run went on from it: its history ends before that.
    return there.evaluation_owed &&
           checkpoint::is_on(state.lineage, there.global_step, there.lineage);
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace convoy::train
