#include <fmt/ranges.h>
#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/checkpoints/saved_state.h"

namespace convoy::train {
namespace fs = std::filesystem;

std::string resume_source(const options::TrainingArguments& arguments) {
  const auto& from = arguments.resume_from_checkpoint;
  if (from == "false" || from == "False") return "";
  return from == "true" || from == "True" ? "latest" : from;
}

bool resumes(const options::TrainingArguments& arguments) {
  return !resume_source(arguments).empty();
}

bool forbids_resuming(const options::TrainingArguments& arguments) {
  return !arguments.resume_from_checkpoint.empty() && !resumes(arguments);
}

/// Resumes from the checkpoint that rank 0 finds; nothing where the run starts anew.
std::optional<TrainerState> Checkpoints::resume(const TrainerState& fresh) {
  if (dir_.empty() && resume_from_.empty()) return std::nullopt;
  memory_.find(job_.world());
  comm::ask_main(
      job_.world(), "open output.dir",
      [&] {
        std::error_code error;
        const bool named = !resume_from_.empty() && resume_from_ != "latest";
        const bool first_start = job_.environment.restart_count == 0;  // else it may be rotated
        if (named && first_start &&
            !fs::exists(resume_from_, error)) {  // before output.dir is made
          fail<UsageError>("train", "there is no checkpoint {}", resume_from_);
        }
        memory_candidates_ = memory_.left();
        if (!dir_.empty()) open_output();
        find_candidates();
        return Json();
      },
      comm::Lasts::Long);
  if (!dir_.empty()) tell_who_shares();
  bool weights_are_touched = false;
  while (true) {
    const Json found = comm::ask_main(
        job_.world(), "look for a checkpoint", [&] { return first_that_fits(fresh); },
        comm::Lasts::Long);
    if (found.is_null()) {
      tell_new_beginning(weights_are_touched);
      return std::nullopt;
    }
    if (found.contains("to_share")) {
      share_copy(value_from<int64_t>(found.at("to_share")));
      continue;
    }
    fs::path folder = found.at("folder").get<std::string>();
    if (found.at("in_memory").get<bool>()) folder = memory_.here(folder);
    const auto& group = strategy_.processes();
    try {
      read_weights(folder);
      fault_at("resume");
      checkpoint::load_optimizer(folder / kOptimizer, strategy_.moments(), group);
    } catch (const FileError& error) {  // of all ranks
      if (found.at("was_named").get<bool>()) throw;
      pass_over(folder, error);
      weights_are_touched = true;
      continue;
    }
    strategy_.share(/*moments=*/true);
    resumed_from_ = folder.string();
    lost_save_ = found.at("lost_save").get<bool>();
    if (job_.environment.restart_count > 0 || resume_from_ == "latest") space_.note_saved();
    if (!found.at("has_manifest").get<bool>()) {
      callbacks_.say(fmt::format(
          "warning: {} has no {}: nobody can tell whether its files are as they were written",
          resumed_from_, checkpoint::Manifest::kName));
    }
    tell_left_behind(found.at("left_behind").get<std::string>());
    if (found.at("was_abandoned").get<bool>()) {
      callbacks_.say(fmt::format(
          "warning: no checkpoint is left of the branch that {} follows: it goes on from {}, which "
          "it had left behind",
          dir_.string(), resumed_from_));
    }
    if (job_.environment.restart_count > 0) {
      callbacks_.say(fmt::format("start {}: going on from {}", job_.environment.restart_count + 1,
                                 resumed_from()));
    }
    auto state = TrainerState::from_json(found.at("state"), resumed_from_);
    comm::ask_main(job_.world(), "begin a branch", [&] {
      keep_lineage(state);
      return Json();
    });
    last_save_ = slowest_save_ = state.save_seconds;
    tell_other_batch(state, fresh);
    tell_other_rows(state, fresh);
    return state;
  }
}

/// Says that a restart begins anew. Throws where it cannot: weights were read that are not whole,
/// or somebody asked to resume.
void Checkpoints::tell_new_beginning(bool weights_are_touched) {
  if (weights_are_touched || !resume_from_.empty()) {
    fail<FileError>("train",
                    "no memory copy is whole, and there is no checkpoint in {}; start again to "
                    "begin anew",
                    dir_.string());
  }
  if (job_.environment.restart_count == 0) return;
  callbacks_.say(fmt::format("start {}: beginning anew, for there is nothing to go on from",
                             job_.environment.restart_count + 1));
}

void Checkpoints::tell_left_behind(const std::string& newest) {
  if (newest.empty()) return;
  callbacks_.say(fmt::format(
      "warning: {} goes on from {}, and leaves {} behind: `latest` means this branch of the run "
      "from now on, and --save_total_limit removes what was left behind first",
      dir_.string(), resumed_from_, newest));
}

/// Warns of steps of another size than the saved run's, which another number of ranks makes with
/// the same options.
void Checkpoints::tell_other_batch(const TrainerState& saved, const TrainerState& fresh) {
  if (saved.step_samples == fresh.step_samples || saved.step_samples == 0) return;
  callbacks_.say(fmt::format(
      "warning: {} was trained with {} a step, this run goes on with {}; try "
      "--global_batch_size {} to keep them",
      resumed_from(), plural(saved.step_samples, "row"), fresh.step_samples, saved.step_samples));
}

/// Warns where the data have changed, which may be on purpose between epochs.
void Checkpoints::tell_other_rows(const TrainerState& saved, const TrainerState& fresh) {
  const bool known = saved.first_rows_sum != 0 && fresh.first_rows_sum != 0;
  const bool same = !known || saved.first_rows_sum == fresh.first_rows_sum;
  if (same || saved.data_order != fresh.data_order) return;
  callbacks_.say(fmt::format(
      "warning: {} was trained on other data of as many rows: the first rows of its order differ "
      "from this run's; try the same files and [data] options",
      resumed_from()));
}

/// Warns of ranks that do not see the folder, before hours of training lead to the first
/// checkpoint.
void Checkpoints::tell_who_shares() {
  const auto sees = checkpoint::who_sees(dir_ / ".lock", job_.world());
  std::vector<int> blind;
  for (int rank = 0; rank < job_.world().size(); ++rank) {
    if (!sees[static_cast<size_t>(rank)]) blind.push_back(rank);
  }
  if (blind.empty() || !sees[0]) return;
  callbacks_.say(
      fmt::format("output.dir = {} of rank 0's host is not seen by rank{} {}: what they keep "
                  "goes there over the network with each checkpoint",
                  dir_.string(), blind.size() > 1 ? "s" : "", fmt::join(blind, ", ")));
}

/// Continues the run's branch, or begins a new one. Returns the newest checkpoint that is abandoned
/// by that; "" where there is none.
std::string Checkpoints::follow_or_branch(const fs::path& from, TrainerState& state) const {
  if (dir_.empty()) return "";
  const checkpoint::Line line(dir_);
  const auto& all = line.checkpoints();
  const bool own = same_file(from / "..", dir_);
  if (all.empty() || (own && same_file(all.back().second, from))) {
    if (own) state.lineage = line.lineage();
    return "";
  }
  if (memory_.holds(from) && all.back().first <= state.global_step) return "";
  std::erase_if(state.lineage,
                [&](const auto& branch) { return branch.from_step >= state.global_step; });
  state.lineage.push_back({line.next_id(), state.global_step});
  return all.back().first > state.global_step ? all.back().second.filename().string() : "";
}

/// Saves the lineage, so that `latest` means the requested branch even before it has saved.
void Checkpoints::keep_lineage(const TrainerState& state) {
  if (!candidate_was_named_ || dir_.empty() || state.lineage.empty()) return;
  keep_output();
  write_file(dir_ / checkpoint::kLineage, checkpoint::to_json(state.lineage).dump() + "\n");
}

int64_t Checkpoints::load_moments(const fs::path& folder) {
  const auto& own = strategy_.replica().flat().optimizer().name();
  const Json updates = comm::ask_main(job_.world(), "look for moments", [&]() -> Json {
    const auto saved = read_checked_state(folder);
    if (saved.optimizer != own) {
      fail<UsageError>("train", "the moments in {} are of {}; got {}; try --optim {}, or none kept",
                       folder.string(), saved.optimizer, own, saved.optimizer);
    }
    return saved.earlier_updates + saved.updates();
  });
  checkpoint::load_optimizer(folder / kOptimizer, strategy_.moments(), strategy_.processes());
  strategy_.share(/*moments=*/true);
  return value_from<int64_t>(updates);
}

}  // namespace convoy::train
