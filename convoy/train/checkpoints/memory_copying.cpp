#include "convoy/train/checkpoints/memory_copying.h"

#include <algorithm>
#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/comm/agree.h"
#include "convoy/machine/memory_limit.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

/// Copies by default: every so many steps, for at most this share of the time, and in at most this
/// share of the memory that is free.
constexpr int64_t kUsualSteps = 10;
constexpr double kMostTime = 0.01;
constexpr double kMostMemory = 0.25;

}  // namespace

MemoryCopying::MemoryCopying(const options::TrainingArguments& arguments, const job::Job& job)
    : arguments_(arguments), job_(job) {
  const auto& folder = job.environment.kept_memory;
  std::error_code error;
  if (!folder.empty() && fs::exists(folder, error)) copies_.emplace(folder);
}

/// Why copies that are asked for cannot be; "": they can.
std::string MemoryCopying::refusal() const {
  const auto& ranks = job_.environment;
  if (arguments_.output.dir.empty()) return "needs a folder of the run; try --output_dir";
  if (arguments_.parallel.parallelism.offload.any()) {
    return "is for state in memory, and offload_* keeps it elsewhere; try without one of them";
  }
  if (copies_) return "";
  if (ranks.source != "convoy launch") {
    return fmt::format(
        "needs convoy launch --max-restarts 1 or more, which keeps the copies while ranks start "
        "again; got {}",
        ranks.launched() ? ranks.source : "no launcher");
  }
  if (ranks.num_nodes > 1) {
    return fmt::format("is for the ranks of one host; got {} hosts", ranks.num_nodes);
  }
  return "needs ranks that may start again; try convoy launch --max-restarts 3";
}

/// Whether copies are made without being asked for, where they fit.
bool MemoryCopying::is_offered() const {
  return refusal().empty() && job_.devices.at(0).is_cpu();
}

std::string MemoryCopying::begin(int64_t step, const parallel::State& weights,
                                 const parallel::State& moments, const comm::Group& group) {
  const auto& asked = arguments_.memory_copy_steps;
  if (asked == 0) return "";
  const auto why = refusal();
  if (asked && !why.empty()) fail<UsageError>("train", "memory_copy_steps = {} {}", *asked, why);
  if (!asked && !is_offered()) return "";
  const int64_t needed = checkpoint::MemoryCopies::bytes_of_both(weights, moments);
  const Json told = comm::ask_main(group, "look for memory", [&]() -> Json {
    copies_->forget_beyond(step);
    // Copies that an earlier start made hold their memory already.
    return left().empty() ? machine::available_memory() : 0;
  });
  const auto available = value_from<int64_t>(told);
  const bool known = available > 0;
  if (asked && known && needed > available) {
    fail<UsageError>(
        "train",
        "memory_copy_steps = {} keeps the state twice in memory, {}, and {} are free on "
        "this host: {} too few; try --memory_copy_steps 0, --optim lion_32bit, or "
        "fewer ranks",
        *asked, human_bytes(needed), human_bytes(available), human_bytes(needed - available));
  }
  if (!asked && known &&
      static_cast<double>(needed) > kMostMemory * static_cast<double>(available)) {
    return fmt::format(
        "none to memory: two would take {}, more than a quarter of the {} that are free on this "
        "host; a restart goes on from a checkpoint, unless --memory_copy_steps asks for copies",
        human_bytes(needed), human_bytes(available));
  }
  every_ = asked.value_or(kUsualSteps);
  paced_ = !asked;
  last_ = step;
  next_ = (step / every_ + 1) * every_;
  last_end_ = std::chrono::steady_clock::now();
  return fmt::format("to memory every {}{}; two take {} of this host",
                     every_ == 1 ? "step" : plural(every_, "step"),
                     paced_ ? ", or less often where that is over 1 % of the time" : "",
                     human_bytes(needed));
}

bool MemoryCopying::is_due(int64_t step) const {
  return every_ > 0 && step >= next_;
}

std::string MemoryCopying::write(int64_t step, const parallel::State& weights,
                                 const parallel::State& moments,
                                 const std::map<std::string, std::string>& texts,
                                 const comm::Group& group) {
  const Doing doing(fmt::format("copy step {} to memory", step));
  const auto began = std::chrono::steady_clock::now();
  try {
    copies_->write(step, weights, moments, texts, group);
  } catch (const FileError& error) {  // of all ranks
    every_ = 0;
    return fmt::format("{}; no more copies are made, and a restart goes on from a checkpoint",
                       error.what());
  }
  int64_t pause = every_;
  if (paced_) {
    const double step_seconds = std::chrono::duration<double>(began - last_end_).count() /
                                static_cast<double>(std::max<int64_t>(1, step - last_));
    const double least = seconds_since(began) / (kMostTime * std::max(step_seconds, 1e-6));
    const Json told = comm::ask_main(group, "agree on the next copy", [&] {
      return Json(std::max(every_, static_cast<int64_t>(std::ceil(std::min(least, 1e9)))));
    });
    pause = value_from<int64_t>(told);
  }
  next_ = paced_ ? step + pause : (step / every_ + 1) * every_;
  last_ = step;
  last_end_ = std::chrono::steady_clock::now();
  return "";
}

std::deque<fs::path> MemoryCopying::left() const {
  std::deque<fs::path> out;
  if (!copies_ || job_.environment.restart_count == 0) return out;
  for (const auto& [step, folder] : checkpoint::list_checkpoints(copies_->folder())) {
    out.push_front(folder);
  }
  return out;
}

bool MemoryCopying::holds(const fs::path& folder) const {
  return copies_ && folder.parent_path() == copies_->folder();
}

std::string MemoryCopying::shown(const fs::path& folder) const {
  return holds(folder) ? fmt::format("the memory copy of step {}", checkpoint::step_of(folder))
                       : folder.string();
}

}  // namespace convoy::train
