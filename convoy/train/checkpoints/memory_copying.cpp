#include "convoy/train/checkpoints/memory_copying.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/host_name.h"
#include "convoy/base/json_value.h"
#include "convoy/base/memory_links.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/to_host.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/machine/resident.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/saved_state.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

/// Default of copies: steps from one to the next, and their largest shares of the time and of the
/// memory that is free.
constexpr int64_t kUsualSteps = 10;
constexpr double kMostTime = 0.01;
constexpr double kMostMemory = 0.25;

/// File in a copy that names the run which made it, by the paths of the host that has the copy.
constexpr const char* kRun = "copied_run.json";
/// File in a copy with the step of the checkpoint that was being written to the disk meanwhile.
constexpr const char* kSaving = "saving_step.json";

/// Text that tells runs apart: their folder, and what decides their steps and no plan changes.
std::string run_of(const options::TrainingArguments& a) {
  // The folder may be made only after this.
  const auto& dir = a.output.dir;
  const auto folder = dir.empty() ? fs::path() : fs::weakly_canonical(fs::absolute(dir));
  return fmt::format("{} {} {} {} {} {} {} {} {} {} {}", folder.string(), a.seed, a.optim,
                     a.learning_rate, a.weight_decay, a.lr_scheduler_type, a.warmup_steps,
                     a.warmup_ratio, a.num_train_epochs, a.max_steps, a.resume_from_checkpoint);
}

/// Content of a small file of a copy; null where it cannot be read.
Json read_small(const fs::path& folder, const char* name) {
  try {
    return parse_json(read_file(folder / name), name);
  } catch (const FileError&) {
    return {};
  }
}

/// Whether a copy is of a run.
bool is_of(const std::string& run, const fs::path& folder) {
  const auto copied = read_small(folder, kRun);
  return copied.is_object() && copied.value("run", "") == run;
}

/// Copies of a run in the memory that its launcher keeps, the newest first.
std::deque<fs::path> copies_of(const std::string& run, const options::TrainingArguments& arguments,
                               const launch::RankEnvironment& ranks) {
  std::deque<fs::path> out;
  if (ranks.restart_count == 0 || ranks.kept_memory.empty() || forbids_resuming(arguments))
    return out;
  for (const auto& [step, folder] : checkpoint::list_checkpoints(ranks.kept_memory)) {
    if (is_of(run, folder)) out.push_front(folder);
  }
  return out;
}

}  // namespace

std::deque<fs::path> left_memory_copies(const options::TrainingArguments& arguments,
                                        const launch::RankEnvironment& ranks) {
  return copies_of(run_of(arguments), arguments, ranks);
}

namespace {

/// Share of a rank in the copies of its host; nothing where the host lacks some of the state.
std::optional<parallel::HostShare> share_of(const options::TrainingArguments& arguments,
                                            const job::Job& job) {
  const auto& ranks = job.environment;
  if (ranks.num_nodes == 1) return parallel::HostShare{.first = ranks.rank == 0};
  if (arguments.parallel.parallelism.row_tables) return std::nullopt;  // shared out over all ranks
  const bool sharded = arguments.parallel.parallelism.stage_of_zero() > 0;
  return parallel::host_share(job.groups.mesh, ranks.rank - ranks.local_rank,
                              ranks.local_world_size, sharded);
}

/// Returns why copies that are asked for cannot be made; "": they can.
std::string refusal(const options::TrainingArguments& arguments, const job::Job& job) {
  const auto& ranks = job.environment;
  if (arguments.output.dir.empty()) return "needs a folder of the run; try --output_dir";
  if (arguments.parallel.parallelism.offload.any()) {
    return "is for state in memory, and offload_* keeps it elsewhere; try without one of them";
  }
  if (forbids_resuming(arguments)) {
    return fmt::format("is for restarts that go on, which resume_from_checkpoint = {} forbids",
                       arguments.resume_from_checkpoint);
  }
  if (!ranks.kept_memory.empty()) return "";
  if (ranks.source != "convoy launch") {
    return fmt::format(
        "needs convoy launch --max-restarts 1 or more, which keeps the copies while ranks start "
        "again; got {}",
        ranks.launched() ? ranks.source : "no launcher");
  }
  if (ranks.num_nodes > 1) {
    return "needs memory that convoy launch keeps with --max-restarts 1 or more on the host that "
           "serves the rendezvous, or with --nnodes MIN:MAX; got none";
  }
  return "needs memory that convoy launch keeps with --max-restarts 1 or more; got none";
}

}  // namespace

void check_memory_copies(const options::TrainingArguments& arguments, const job::Job& job) {
  const auto asked = arguments.memory_copy_steps.value_or(0);
  const auto why = asked > 0 ? refusal(arguments, job) : "";
  if (!why.empty()) fail<UsageError>("train", "memory_copy_steps = {} {}", asked, why);
}

MemoryCopying::MemoryCopying(const options::TrainingArguments& arguments, const job::Job& job)
    : arguments_(arguments),
      job_(job),
      place_{.host = job.environment.node_rank,
             .num_hosts = job.environment.num_nodes,
             .local_rank = job.environment.local_rank,
             .num_local_ranks = job.environment.local_world_size},
      run_(run_of(arguments)) {
  if (!refusal(arguments, job).empty()) return;
  share_ = share_of(arguments, job);
  copies_.emplace(job.environment.kept_memory, place_,
                  std::map<std::string, std::string>{{kRun, Json{{"run", run_}}.dump()}});
}

void MemoryCopying::open() {
  std::error_code error;
  if (lock_.held() || !fs::exists(copies_->folder() / memory_link(0), error)) return;
  // Rank 0 of an earlier start may take a moment to end.
  constexpr std::chrono::seconds kPatience{5};
  lock_ = job_.environment.restart_count == 0 ? FolderLock(copies_->folder())
                                              : FolderLock(copies_->folder(), kPatience);
}

std::vector<int64_t> MemoryCopying::left_steps() const {
  std::vector<int64_t> out;
  if (!lock_.held()) return out;
  for (const auto& folder : copies_of(run_, arguments_, job_.environment)) {
    out.push_back(checkpoint::step_of(folder));
  }
  return out;
}

checkpoint::HeldCopies MemoryCopying::held(const comm::Group& group) const {
  return checkpoint::tell_copies(left_steps(), place_, group);
}

void MemoryCopying::find(const comm::Group& group) {
  left_.clear();
  ready_.clear();
  const auto any_lacks = [&](bool lacks) {
    auto lacking = at::full({1}, lacks ? 1 : 0, at::kLong);
    group.all_reduce(lacking, comm::ReduceOp::Max, "agree on memory copies");
    return comm::item<int64_t>(lacking) != 0;
  };
  if (place_.num_hosts > 1 && any_lacks(!copies_)) copies_.reset();
  if (!copies_) return;
  sends_ = place_.num_hosts > 1 && any_lacks(!share_);
  comm::each_rank(
      group, "open the memory of copies",
      [&] {
        if (place_.is_first()) open();
      },
      comm::Lasts::Long);
  if (place_.num_hosts == 1) {
    left_ = left_steps();
    return;
  }
  // What another training of the launch has on a host must not be written there.
  if (any_lacks(place_.is_first() && !lock_.held())) return;
  left_ = held(group).all();
}

std::vector<std::string> MemoryCopying::share_copy(int64_t step, const comm::Group& group) {
  const auto shared =
      checkpoint::share_copy(step, held(group), copies_->slots(), place_, copies_->own(), group);
  if (shared.is_whole) ready_.insert(step);
  return shared.warnings;
}

bool MemoryCopying::is_ready(int64_t step) const {
  return place_.num_hosts == 1 || ready_.contains(step);
}

/// Whether copies are made without being asked for, where they fit and cross no network. Saving a
/// row table rounds the updates that its rows missed, so it must not depend on a clock.
bool MemoryCopying::is_offered() const {
  return copies_ && !sends_ && job_.devices.at(0).is_cpu() &&
         !arguments_.parallel.parallelism.row_tables;
}

/// Returns why two copies do not fit into the memory that steps leave; "": they do. Collective.
std::string MemoryCopying::lack_of_memory(const comm::Group& group) const {
  // Memory that steps needed and gave back, they will need again.
  auto again = at::zeros({place_.num_hosts}, at::kLong);
  again[place_.host] =
      std::max<int64_t>(0, machine::peak_resident_bytes() - machine::resident_bytes());
  group.all_reduce(again, comm::ReduceOp::Sum, "add up peaks");
  try {
    comm::each_rank(group, "look for memory", [&] {
      const auto free = machine::available_memory();
      if (!place_.is_first() || free == 0) return;  // nobody knows
      const auto left = std::max<int64_t>(0, free - comm::item<int64_t>(again[place_.host])) +
                        copies_->slots().held();
      const auto share = paced_ ? kMostMemory : 1;
      if (needed_ <= static_cast<int64_t>(share * static_cast<double>(left))) return;
      fail<FileError>("train", "two copies of {} in all, {} the {} that are free on {}",
                      human_bytes(needed_), paced_ ? "more than a quarter of" : "beyond",
                      human_bytes(left),
                      place_.num_hosts == 1 ? "this host" : "host " + host_name());
    });
  } catch (const FileError& error) {  // of all ranks
    return reason_of(error);
  }
  return "";
}

std::string MemoryCopying::begin(int64_t step, const std::function<int64_t()>& bytes,
                                 const comm::Group& group) {
  every_ = 0;
  bool in_doubt = false, is_ours = false;
  if (copies_) {
    auto not_ours_or_in_doubt = at::zeros({2}, at::kLong);
    if (place_.is_first()) {
      if (lock_.held()) forget_others(step);
      std::error_code error;
      not_ours_or_in_doubt[0] = lock_.held() ? 0 : 1;
      not_ours_or_in_doubt[1] = fs::exists(copies_->folder() / kInDoubt, error) ? 1 : 0;
    }
    group.all_reduce(not_ours_or_in_doubt, comm::ReduceOp::Max, "look at memory copies");
    is_ours = comm::item<int64_t>(not_ours_or_in_doubt[0]) == 0;
    in_doubt = comm::item<int64_t>(not_ours_or_in_doubt[1]) != 0;
  }
  const auto& asked = arguments_.memory_copy_steps;
  if (!copies_ || asked == 0 || (!asked && !is_offered())) return "";
  if (!is_ours) return "none to memory: another training of this launch has it, or it is gone";
  if (!asked && in_doubt) {
    return "none to memory in this start: the last one got no further than the one before";
  }
  needed_ = bytes();
  paced_ = !asked;
  const auto lack = lack_of_memory(group);
  if (!lack.empty() && asked && job_.environment.restart_count == 0) {
    fail<UsageError>("train",
                     "memory_copy_steps = {} keeps {}; try --memory_copy_steps 0, an optimizer "
                     "with less state (--optim lion_32bit), or a host with more memory",
                     *asked, lack);
  }
  if (!lack.empty()) {
    return fmt::format(
        "none to memory: {}; a restart goes on from a checkpoint, unless --memory_copy_steps asks "
        "for copies",
        lack);
  }
  every_ = asked.value_or(kUsualSteps);
  last_ = step;
  next_ = (step / every_ + 1) * every_;
  last_end_ = std::chrono::steady_clock::now();
  return fmt::format("to memory every {}{}{}; two take {} of {}",
                     every_ == 1 ? "step" : plural(every_, "step"),
                     paced_ ? ", or less often where that is over 1 % of the time" : "",
                     sends_ ? ", which hosts send each other" : "", human_bytes(needed_),
                     place_.num_hosts == 1 ? "this host" : "each host");
}

bool MemoryCopying::is_due(int64_t step) const {
  return every_ > 0 && step >= next_;
}

std::string MemoryCopying::write(int64_t step, const std::function<CopiedState()>& content,
                                 const comm::Group& group) {
  const Doing doing(fmt::format("copy step {} to memory", step));
  const auto began = std::chrono::steady_clock::now();
  const bool is_usual = copies_->num_written() == 2;
  try {
    // What steps need is known now.
    const auto lack = paced_ && copies_->num_written() == 0 ? lack_of_memory(group) : "";
    if (!lack.empty()) fail<FileError>("train", "the state is not copied to memory: {}", lack);
    auto state = content();
    state.texts[kSaving] = Json(state.saving_step).dump();
    copies_->write(step, state.weights, state.moments, state.texts, group, sends_);
  } catch (const FileError& error) {  // of all ranks
    every_ = 0;
    return fmt::format(
        "{}; from here on no copies are made: a restart goes on from the last one, or a checkpoint",
        error.what());
  }
  next_ = (step / every_ + 1) * every_;
  if (paced_ && is_usual) pace(step, began, group);
  last_ = step;
  last_end_ = std::chrono::steady_clock::now();
  return "";
}

/// Puts the next copy off until the one of `step` was at most its share of the time. Collective.
void MemoryCopying::pace(int64_t step, std::chrono::steady_clock::time_point began,
                         const comm::Group& group) {
  const double step_seconds = std::chrono::duration<double>(began - last_end_).count() /
                              static_cast<double>(std::max<int64_t>(1, step - last_));
  const double least = seconds_since(began) / (kMostTime * std::max(step_seconds, 1e-6));
  const Json told = comm::ask_main(group, "agree on the next copy", [&] {
    return Json(static_cast<int64_t>(std::ceil(std::min(least, 1e9))));
  });
  next_ = std::max(next_, step + value_from<int64_t>(told));
}

/// Removes copies of other runs, and of steps that this run left, and frees what no copy uses.
void MemoryCopying::forget_others(int64_t step) const {
  for (const auto& [of, folder] : checkpoint::all_named(copies_->folder())) {
    std::error_code ignored;
    if (of > step || !is_of(run_, folder)) fs::remove_all(folder, ignored);
  }
  copies_->slots().free_unused();
}

std::deque<fs::path> MemoryCopying::left() const {
  std::deque<fs::path> out;
  for (const auto step : left_) out.push_back(copies_->slots().copy_of(step));
  return out;
}

fs::path MemoryCopying::here(const fs::path& folder) const {
  return copies_->folder() / folder.filename();
}

const parallel::HostShare* MemoryCopying::share() const {
  return place_.num_hosts > 1 && !sends_ ? &*share_ : nullptr;
}

bool MemoryCopying::holds(const fs::path& folder) const {
  return copies_ && folder.parent_path() == copies_->folder();
}

int64_t MemoryCopying::saving_step(const fs::path& folder) const {
  const auto step = holds(folder) ? read_small(folder, kSaving) : Json();
  return step.is_number_integer() ? value_from<int64_t>(step) : 0;
}

std::string MemoryCopying::shown(const fs::path& folder) const {
  return holds(folder) ? fmt::format("the memory copy of step {}", checkpoint::step_of(folder))
                       : folder.string();
}

}  // namespace convoy::train
