#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/job/job_id.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/checkpoints/saved_state.h"

// Checkpoints and memory copies that a run may go on from, and which of them it takes.
namespace convoy::train {
namespace fs = std::filesystem;

/// Lists the checkpoints to resume from, the best first; none for a new run.
void Checkpoints::find_candidates() {
  if (!dir_.empty()) candidates_ = checkpoints_of_this_job();
  if (!candidates_.empty() || resume_from_.empty()) return;
  candidate_was_named_ = resume_from_ != "latest";
  if (candidate_was_named_) {
    const auto latest = checkpoint::latest_checkpoint(resume_from_);
    candidates_ = {resume_from_};
    if (!latest) return;
    fail<UsageError>("train",
                     "resume_from_checkpoint = {} is a run's folder; try its checkpoint {}",
                     resume_from_, latest->string());
  }
  const auto all = checkpoint::Line(dir_).newest_first();
  candidates_.assign(all.begin(), all.end());
  if (!candidates_.empty() || !memory_candidates_.empty()) return;
  // Suggests the checkpoint of a run that --overwrite_output_dir put aside before the new one
  // saved.
  const auto old = checkpoint::latest_checkpoint(dir_ / kReplaced);
  fail<UsageError>("train",
                   "there is no checkpoint in {}; expected a folder checkpoint-<step>; "
                   "try {}{}",
                   dir_.string(),
                   holds_run() || old ? "--overwrite_output_dir without --resume_from_checkpoint"
                                      : "without --resume_from_checkpoint",
                   old ? fmt::format(", or the run that was put aside: {}", old->string()) : "");
}

/// Checkpoints of this job, the newest first, for a restart of its ranks: it resumes unless
/// resume_from_checkpoint = false. Other checkpoints in the folder are another job's. Includes
/// those whose state cannot be read; empty where no other is this job's.
std::deque<fs::path> Checkpoints::checkpoints_of_this_job() const {
  if (job_.environment.restart_count == 0 || forbids_resuming(arguments_)) return {};
  const auto& id = job_.environment.job_id;
  std::deque<fs::path> out;
  bool own = false;
  for (const auto& path : checkpoint::Line(dir_).newest_first()) {
    bool wanted = true;
    try {
      wanted = id.empty() || job::is_same_job(read_state(path).job_id, id);
      own = own || wanted;
    } catch (const FileError&) {
      // An unreadable state is reported when a run resumes from it.
    }
    if (wanted) out.push_back(path);
  }
  return own ? out : std::deque<fs::path>();
}

/// Whether the run goes on from a checkpoint or a memory copy, as far as is known before they are
/// read.
bool Checkpoints::goes_on() const {
  return !resume_from_.empty() || !memory_candidates_.empty();
}

/// Whether somebody named this very checkpoint to go on from: then no other one will do.
bool Checkpoints::was_named(const fs::path& folder) const {
  return candidate_was_named_ && !memory_.holds(folder);
}

/// The next folder to look at, furthest step first; nothing where there are no more.
std::optional<fs::path> Checkpoints::next_candidate() {
  const auto step_of_first = [](const std::deque<fs::path>& folders) {
    return folders.empty() ? -1 : checkpoint::step_of(folders.front());
  };
  const bool from_memory =
      !memory_candidates_.empty() &&
      (candidate_was_named_ || step_of_first(memory_candidates_) >= step_of_first(candidates_));
  auto& from = from_memory ? memory_candidates_ : candidates_;
  if (from.empty()) return std::nullopt;
  const auto out = from.front();
  from.pop_front();
  return out;
}

/// Gives each host a memory copy that is the next candidate. Collective.
void Checkpoints::share_copy(int64_t step) {
  for (const auto& text : memory_.share_copy(step, job_.world()))
    callbacks_.say("warning: " + text);
  if (job_.is_main() && memory_.is_ready(step)) {
    memory_candidates_.push_front(memory_.copy_of(step));
  }
}

/// State of the first candidate that this run can resume from; removes the candidates up to it.
/// Null where there is none. {"to_share": step}: it is a memory copy that some host may lack.
Json Checkpoints::first_that_fits(const TrainerState& fresh) {
  while (const auto folder = next_candidate()) {
    const auto step = memory_.holds(*folder) ? checkpoint::step_of(*folder) : -1;
    if (step >= 0 && !memory_.is_ready(step)) return {{"to_share", step}};
    try {
      return look_at(*folder, fresh);
    } catch (const FileError& error) {
      if (was_named(*folder)) throw;
      pass_over(*folder, error);
    }
  }
  if (passed_over_.empty()) return {};
  fail<FileError>("train",
                  "no checkpoint in {} is whole: {}; try to start anew with --overwrite_output_dir",
                  dir_.string(), join(passed_over_, "; "));
}

void Checkpoints::pass_over(const fs::path& folder, const FileError& error) {
  const auto text = fmt::format("{} is passed over: {}", memory_.shown(folder), reason_of(error));
  callbacks_.say("warning: " + text);
  if (!memory_.holds(folder)) return passed_over_.push_back(text);
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // the next copy takes its place
}

/// Whether a checkpoint of this run is on an abandoned branch.
bool Checkpoints::was_left_behind(const fs::path& folder) const {
  if (dir_.empty()) return false;
  const checkpoint::Line line(dir_);
  return std::ranges::none_of(line.followed(),
                              [&](const auto& own) { return own.second == folder; });
}

}  // namespace convoy::train
