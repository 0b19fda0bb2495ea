#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/checkpoint/visitors.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/job/job_id.h"
#include "convoy/models/wrapper.h"
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

/// Throws where the base is not the one that the adapter was trained with.
void Checkpoints::check_same_base(const fs::path& folder, const TrainerState& saved,
                                  const TrainerState& fresh) {
  const auto dtype_of = [](const std::string& sum) { return sum.substr(0, sum.find(':')); };
  const bool comparable = !saved.base_sum.empty() && !fresh.base_sum.empty() &&
                          dtype_of(saved.base_sum) == dtype_of(fresh.base_sum);
  if (!comparable || saved.base_sum == fresh.base_sum) return;
  fail<UsageError>("train",
                   "the adapter in {} was trained on other weights than this run's base, which "
                   "has checksum {}; expected {}; try the base that it began with, or start anew",
                   folder.string(), fresh.base_sum, saved.base_sum);
}

void Checkpoints::pass_over(const fs::path& folder, const FileError& error) {
  const auto text = fmt::format("{} is passed over: {}", memory_.shown(folder), reason_of(error));
  callbacks_.say("warning: " + text);
  if (!memory_.holds(folder)) return passed_over_.push_back(text);
  std::error_code ignored;
  fs::remove_all(folder, ignored);  // the next copy takes its place
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

/// Checkpoints of this job, the newest first, for a restart of its ranks: it resumes unless
/// resume_from_checkpoint = false. Other checkpoints in the folder are another job's. Includes
/// those whose state cannot be read; empty where no other is this job's.
std::deque<fs::path> Checkpoints::checkpoints_of_this_job() const {
  if (job_.environment.restart_count == 0 || forbids_resuming(arguments_)) return {};
  const auto& id = job_.environment.job_id;
  std::deque<fs::path> out;
  bool own = false;
  const checkpoint::Line line(dir_);
  for (const auto& [step, path] : line.checkpoints()) {
    bool wanted = true;
    try {
      wanted = id.empty() || job::is_same_job(read_state(path).job_id, id);
      own = own || wanted;
    } catch (const FileError&) {
      // An unreadable state is reported when a run resumes from it.
    }
    if (wanted) out.push_front(path);
  }
  return own ? out : std::deque<fs::path>();
}

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
  const checkpoint::Line line(dir_);
  for (const auto& [step, path] : line.checkpoints()) {
    candidates_.push_front(path);
  }
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

/// Whether a checkpoint of this run is on an abandoned branch.
bool Checkpoints::was_left_behind(const fs::path& folder) const {
  if (dir_.empty()) return false;
  const checkpoint::Line line(dir_);
  return std::ranges::none_of(line.followed(),
                              [&](const auto& own) { return own.second == folder; });
}

/// Checks that a checkpoint fits this run, and returns its state.
Json Checkpoints::look_at(const fs::path& folder, const TrainerState& fresh) const {
  auto saved = read_checked_state(folder);
  check_same_model(folder);
  if (!saved.encoding.empty() && saved.encoding != fresh.encoding) {
    fail<UsageError>("train",
                     "{} was trained with the {}, this run has {}: the same ids would stand for "
                     "something else; try that one, or start anew",
                     memory_.shown(folder), saved.encoding,
                     fresh.encoding.empty() ? "none" : "the " + fresh.encoding);
  }
  if (saved.optimizer != fresh.optimizer) {
    fail<UsageError>("train",
                     "the optimizer state of {} is of {}; got {}; try --optim {}, or start anew",
                     memory_.shown(folder), saved.optimizer, fresh.optimizer, saved.optimizer);
  }
  if (saved.num_rows != fresh.num_rows || saved.data_seed != fresh.data_seed) {
    fail<UsageError>("train",
                     "{} was made with {} rows and data seed {}; got {} rows and data "
                     "seed {}; try the same data and seed, or start anew",
                     memory_.shown(folder), saved.num_rows, saved.data_seed, fresh.num_rows,
                     fresh.data_seed);
  }
  check_same_base(folder, saved, fresh);
  const bool mid_epoch =
      saved.epoch_position > 0 &&
      (saved.epoch_position < saved.num_rows || saved.epoch_position <= saved.last_step_position);
  if (mid_epoch && saved.data_order != fresh.data_order) {
    fail<UsageError>(
        "train",
        "{} stands in mid-epoch, and its order of samples ({}) is not this run's ({}); try the "
        "same files, data.shuffle_window and data.partition (and with row_groups the same number "
        "of ranks), or resume from the end of an epoch",
        memory_.shown(folder), saved.data_order, fresh.data_order);
  }
  const bool in_memory = memory_.holds(folder);
  const bool has_manifest = fs::exists(folder / checkpoint::Manifest::kName);
  if (in_memory && !has_manifest) {
    fail<FileError>("train", "it has no {}", checkpoint::Manifest::kName);
  }
  if (in_memory) {
    check_best_was_saved(saved);
  } else {
    saved.best_model_checkpoint = best_seen_from_here(folder, saved);
  }
  const auto left_behind = follow_or_branch(folder, saved);
  const int64_t saving = memory_.saving_step(folder);
  return {{"folder", folder.string()},
          {"in_memory", in_memory},
          {"lost_save", saving > 0 && !fs::exists(path(saving) / kState)},
          {"state", saved.to_json()},
          {"was_named", was_named(folder)},
          {"has_manifest", has_manifest},
          {"left_behind", was_named(folder) ? left_behind : ""},
          {"was_abandoned", !in_memory && !candidate_was_named_ && was_left_behind(folder)}};
}

/// Throws where the checkpoint of a copy's best step was being saved when the ranks ended: it is
/// made again only by a run that goes on from an earlier step.
void Checkpoints::check_best_was_saved(const TrainerState& saved) const {
  if (!arguments_.load_best_model_at_end || saved.best_step < 0) return;
  const auto all = checkpoint::list_checkpoints(dir_);
  const bool saved_since = !all.empty() && all.back().first >= saved.best_step;
  if (saved_since || best_path(saved) != path(saved.best_step)) return;
  fail<FileError>("train", "the checkpoint of its best step {} was not saved", saved.best_step);
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

/// Throws where the checkpoint's adapter has other ranks, targets or factors. Its base may have
/// another path, as it may have moved.
void Checkpoints::check_same_adapter(const fs::path& checkpoint) const {
  const auto own = files_.texts.find(checkpoint::kAdapterConfig);
  const bool adapts = own != files_.texts.end();
  if (adapts != checkpoint::is_adapter(checkpoint)) {
    fail<UsageError>("train", "{} holds {}, and this run trains {}; try {}", checkpoint.string(),
                     adapts ? "a whole model" : "an adapter",
                     adapts ? "adapters" : "the whole model",
                     adapts ? "without --lora_r" : "the same lora options");
  }
  if (!adapts) return;
  auto wanted = parse_json(own->second, own->first);
  auto saved = checkpoint::to_json(checkpoint::read_adapter_config(checkpoint));
  std::vector<std::string> different;
  for (const auto& [key, value] : wanted.items()) {
    if (key == "base_model_name_or_path" || saved.at(key) == value) continue;
    different.push_back(
        fmt::format("{} = {} instead of {}", key, value.dump(), saved.at(key).dump()));
  }
  if (different.empty()) return;
  fail<UsageError>("train", "{} holds another adapter: this run has {}; try the same lora options",
                   checkpoint.string(), join(different));
}

/// Reports keys of `wanted` that `saved` lacks or has with another value; in a wrapper's config
/// also those of the text part.
void Checkpoints::tell_different(const Json& wanted, const Json& saved,
                                 std::vector<std::string>& different) const {
  const auto& unread = files_.unread_keys;
  for (const auto& [key, value] : wanted.items()) {
    if (std::find(unread.begin(), unread.end(), key) != unread.end()) continue;
    if (!saved.contains(key)) {
      different.push_back(fmt::format("{} = {}, which it does not name", key, value.dump()));
    } else if (key == models::kTextConfig && saved.at(key).is_object()) {
      tell_different(value, saved.at(key), different);
    } else if (saved.at(key) != value) {
      different.push_back(
          fmt::format("{} = {} instead of {}", key, value.dump(), saved.at(key).dump()));
    }
  }
}

void Checkpoints::check_same_model(const fs::path& checkpoint) const {
  check_same_adapter(checkpoint);
  if (files_.carried) files_.carried->check_same(checkpoint);
  const auto path = checkpoint / kConfig;
  if (files_.config.is_null() || !fs::exists(path)) return;
  const auto saved = parse_json(read_file(path), path.string());
  std::vector<std::string> different;
  tell_different(files_.config, saved, different);
  if (different.empty()) return;
  fail<UsageError>("train", "{} holds another model: this run has {}; try the same [model] options",
                   checkpoint.string(), join(different));
}

}  // namespace convoy::train
