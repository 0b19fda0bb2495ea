#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>

#include "convoy/base/activity.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/base/timing.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/shard_size.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/disk_space.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/injected_fault.h"

namespace convoy::train {
namespace fs = std::filesystem;

/// Timeout of collectives that wait for disks, as rank 0 writes the data of other hosts' ranks one
/// after the other. A lost rank is noticed by other collectives.
constexpr std::chrono::hours kDisk{24};

/// Checkpoint whose tensors are being written in the background.
struct Checkpoints::Saving {
  fs::path final_path, best;
  int64_t step;
  Json state;  // as it was; rank 0's
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::optional<AtomicFolder> folder;  // rank 0's
  std::optional<checkpoint::BackgroundSave> tensors;
};

Checkpoints::Checkpoints(const options::TrainingArguments& arguments, const job::Job& job,
                         parallel::Strategy& strategy, const CallbackHandler& callbacks)
    : arguments_(arguments),
      job_(job),
      strategy_(strategy),
      callbacks_(callbacks),
      dir_(arguments.output.dir),
      resume_from_(resume_source(arguments)),
      memory_(arguments, job),
      space_(std::chrono::duration<double>(arguments.disk_full_wait), dir_, callbacks) {}

Checkpoints::~Checkpoints() = default;

/// Writes the small files for which `are_wanted` holds, by path; all without it.
void Checkpoints::save_small_files(const fs::path& folder,
                                   const std::function<bool(const fs::path&)>& are_wanted) const {
  const auto wanted = [&](const std::string& name) {
    return !are_wanted || are_wanted(folder / name);
  };
  if (!files_.config.is_null() && wanted(kConfig)) {
    write_file(folder / kConfig, files_.config.dump(2) + "\n");
  }
  for (const auto& [name, text] : files_.texts) {
    if (wanted(name)) write_file(folder / name, text);
  }
  for (const auto& file : files_.copies) {
    if (wanted(file.name)) checkpoint::copy_into(file.path, folder / file.name);
  }
}

void Checkpoints::restore_small_files() {
  comm::ask_main(
      job_.world(), "look for small files",
      [&] {
        save_small_files(dir_, [](const fs::path& file) {
          std::error_code error;
          return !fs::exists(file, error);
        });
        return Json();
      },
      comm::Lasts::Long);
}

fs::path Checkpoints::path(int64_t step) const {
  return dir_ / checkpoint::name_of_checkpoint(step);
}

std::string Checkpoints::name_to_resume(int64_t step) const {
  return checkpoint::latest_checkpoint(dir_) == path(step) ? "latest" : path(step).string();
}

void Checkpoints::save(TrainerState& state, bool wait) {
  if (dir_.empty()) return;
  space_.run(
      strategy_.processes(), [this] { return saves_of(1).checkpoint_bytes; },
      [&] { begin_save(state, wait); });
}

/// Begins a save as save() does, where the disk has space.
void Checkpoints::begin_save(TrainerState& state, bool wait) {
  finish(state);
  const auto final_path = path(state.global_step);
  const Doing doing("save " + final_path.filename().string());
  inject_fault("saving", strategy_, job_.world());
  const auto& group = strategy_.processes();
  // Weights that are not finite are not worth resuming from.
  checkpoint::check_finite(checkpoint::saved_part(strategy_.weights()), group, state.global_step);
  const auto weights = saved_weights();
  if (state.best_step == state.global_step) {
    state.best_model_checkpoint = final_path.filename().string();
  }
  auto saving = std::make_unique<Saving>();
  saving->final_path = final_path;
  saving->step = state.global_step;
  saving->best = best_path(state);
  if (group.rank() == 0) saving->state = state.to_json();
  const Json made = comm::ask_main(
      group, "make a checkpoint's folder",
      [&]() -> Json {
        keep_output();
        saving->folder.emplace(final_path);
        return {{"temporary", saving->folder->temporary().string()},
                {"lose", join(lose_their_best(final_path, state))}};
      },
      comm::Lasts::Long);
  const fs::path temporary = made.at("temporary").get<std::string>();
  if (const std::string lose = made.at("lose"); !lose.empty()) {
    callbacks_.say(
        fmt::format("warning: this branch saves its own {}, which was the best one of {}: whoever "
                    "goes on from there ends with the model of the last step",
                    final_path.string(), lose));
  }
  const bool beside = arguments_.save_async && !wait;
  const auto first = [this, temporary] {
    if (job_.is_main()) save_small_files(temporary);
  };
  saving->tensors.emplace(checkpoint::CheckpointTensors{.folder = temporary,
                                                        .weights = weights,
                                                        .moments = strategy_.moments(),
                                                        .max_shard_bytes = formats::shard_bytes(
                                                            arguments_.output.max_shard_size),
                                                        .beside = beside,
                                                        .first = first,
                                                        .connect = connect_writers()},
                          group);
  saving_ = std::move(saving);
  if (!beside) finish_saving();
  state.save_seconds = last_save_;
  owes_save_ = false;
}

void Checkpoints::copy_to_memory(const TrainerState& state) {
  const auto content = [&] {
    const auto* share = memory_.share();
    CopiedState out{
        saved_weights(share),
        share != nullptr ? strategy_.replica().moments_of_host(*share) : strategy_.moments(),
        files_.texts, saving_ ? saving_->step : 0};
    if (!files_.config.is_null()) out.texts[kConfig] = files_.config.dump();
    out.texts[kState] = state.to_json().dump();
    return out;
  };
  const auto trouble = memory_.write(state.global_step, content, strategy_.processes());
  if (!trouble.empty()) callbacks_.say("warning: " + trouble);
}

/// Connects groups for the writers, so that pieces of other hosts' ranks do not delay the
/// training's messages.
checkpoint::ConnectWriters Checkpoints::connect_writers() {
  if (!job_.connector) return {};
  return [this](const std::vector<int>& ranks) {
    auto& group = writers_[ranks];
    if (group.size() == 1) {
      const auto name = fmt::format("writers {}", fmt::join(ranks, " "));
      group = job_.connector->connect_later(ranks, name, kDisk);
    }
    return group;
  };
}

/// Completes the checkpoint in progress, after an error that all ranks meet.
void Checkpoints::keep() noexcept try { finish_saving(); } catch (const std::exception&) {
  // The error that ended the training is reported instead.
}

void Checkpoints::finish(TrainerState& state) {
  if (!saving_) return;
  const auto name = saving_->final_path.filename().string();
  try {
    finish_saving();
    state.save_seconds = last_save_;
  } catch (const DiskFullError& error) {
    if (!space_.waits()) throw;
    owes_save_ = true;
    const bool best = state.best_step >= 0 && state.best_model_checkpoint == name;
    if (best) {
      state.best_step = -1;
      state.best_model_checkpoint.clear();
    }
    callbacks_.say(fmt::format("warning: {} is lost, and the run saves anew after this step: {}{}",
                               name, error.what(),
                               best ? "; it was the best one, so the best is sought anew" : ""));
  }
}

/// Completes the checkpoint in progress, and waits for the other processes.
void Checkpoints::finish_saving() {
  if (!saving_) return;
  const auto saving = std::move(saving_);
  const Doing doing("save " + saving->final_path.filename().string());
  auto manifest = saving->tensors->finish();
  comm::ask_main(
      strategy_.processes(), "finish a checkpoint",
      [&] {
        const auto& folder = saving->folder->temporary();
        manifest.check_files(folder);
        saving->state["save_seconds"] = seconds_since(saving->began);
        write_file(folder / kState, saving->state.dump(2) + "\n");  // a line for each step
        manifest.set_others(folder);
        write_file(folder / checkpoint::Manifest::kName, manifest.to_text());
        saving->folder->commit();
        remove_old_run(saving->best);
        if (arguments_.save_total_limit) {
          std::vector<fs::path> spare{saving->final_path};
          if (arguments_.load_best_model_at_end) spare.push_back(saving->best);
          checkpoint::rotate_checkpoints(dir_, *arguments_.save_total_limit, saving->step, spare);
        }
        return Json();
      },
      comm::Lasts::Long);
  space_.note_saved();
  callbacks_.notify([&](Callback& callback) { callback.on_save(saving->final_path); });
  last_save_ = seconds_since(saving->began);
  tell_slow_save(saving->final_path, last_save_);
}

/// Warns of a slow save once, and again when it takes half as long again.
void Checkpoints::tell_slow_save(const fs::path& path, double seconds) {
  const auto slow = slow_save(path.string(), seconds);
  if (slow.empty() || seconds < 1.5 * slowest_save_) return;
  slowest_save_ = seconds;
  callbacks_.say("warning: " + slow);
}

std::string Checkpoints::slow_save(const std::string& what, double seconds) const {
  const double grace = job_.environment.interrupt_grace;
  if (grace <= 0 || seconds <= grace) return "";
  return fmt::format(
      "saving {} took {:.1f} s, but ranks are killed {:g} s after a signal that stops the job, and "
      "it would be lost; try --interrupt-grace {:.0f}, beside --nproc or of convoy launch",
      what, seconds, grace, std::ceil(2 * seconds));
}

bool Checkpoints::writing() const {
  return saving_ && !saving_->tensors->done();
}

/// Sizes of a run's saves.
Saves Checkpoints::saves_of(int64_t num_checkpoints) const {
  const auto bytes = [](const parallel::State& state) {
    double sum = 0;
    for (const auto& tensor : state) {
      sum += std::accumulate(tensor.shape.begin(), tensor.shape.end(), 1.0, std::multiplies<>()) *
             static_cast<double>(c10::elementSize(tensor.dtype));
    }
    return static_cast<int64_t>(sum);
  };
  Saves saves;
  saves.model_bytes = bytes(checkpoint::saved_part(strategy_.weights())) +
                      (files_.carried ? files_.carried->num_bytes() : 0);
  saves.checkpoint_bytes = saves.model_bytes + bytes(strategy_.moments());
  saves.num_checkpoints = num_checkpoints;
  saves.num_there = std::ssize(checkpoint::list_checkpoints(dir_));
  saves.limit = arguments_.save_total_limit;
  return saves;
}

std::string Checkpoints::lack_of_space(int64_t num_checkpoints) const {
  const auto free = dir_.empty() ? std::nullopt : free_space(dir_);
  return free ? tell_lack_of_space(saves_of(num_checkpoints), dir_, *free) : "";
}

/// Weights to save, with those that are carried along; `share`: what the ranks of a host save.
parallel::State Checkpoints::saved_weights(const parallel::HostShare* share) const {
  auto weights = checkpoint::saved_part(
      share != nullptr ? strategy_.replica().weights_of_host(*share) : strategy_.weights());
  if (!files_.carried) return weights;
  const auto& group = strategy_.processes();
  const bool carries = share != nullptr ? share->first : group.rank() == 0;
  comm::each_rank(group, "look at carried weights",
                  [&] { weights = files_.carried->with(std::move(weights), carries); });
  return weights;
}

/// Reads on each rank the weights that it keeps.
void Checkpoints::read_weights(const fs::path& folder) {
  checkpoint::load_weights(folder, checkpoint::saved_part(strategy_.weights()),
                           strategy_.processes(),
                           files_.carried ? files_.carried->layout() : models::WeightLayout());
}

void Checkpoints::load_weights(const fs::path& folder) {
  read_weights(folder);
  strategy_.share(/*moments=*/false);
}

}  // namespace convoy::train
