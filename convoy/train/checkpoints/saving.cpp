#include <fmt/ranges.h>

#include <chrono>
#include <cmath>

#include "convoy/base/activity.h"
#include "convoy/base/files.h"
#include "convoy/base/timing.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/formats/shard_size.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/injected_fault.h"

namespace convoy::train {
namespace fs = std::filesystem;

/// How long what ranks of other hosts send may wait for disks: rank 0 takes one after the other.
/// That a rank is gone is noticed where the ranks wait for each other.
constexpr std::chrono::hours kDisk{24};

/// A checkpoint whose tensors are being written beside the training.
struct Checkpoints::Saving {
  fs::path final_path, best;
  int64_t step;
  std::string state;  // as it was
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  std::optional<AtomicFolder> folder;  // rank 0's
  std::optional<checkpoint::BackgroundSave> tensors;
};

Checkpoints::Checkpoints(const TrainingArguments& arguments, const Job& job,
                         parallel::Strategy& strategy, const CallbackHandler& callbacks)
    : arguments_(arguments),
      job_(job),
      strategy_(strategy),
      callbacks_(callbacks),
      dir_(arguments.output.dir),
      resume_from_(resume_source(arguments)) {}

Checkpoints::~Checkpoints() = default;

void Checkpoints::save_small_files(const fs::path& folder) const {
  if (!files_.config.is_null()) write_file(folder / kConfig, files_.config.dump(2) + "\n");
  for (const auto& [name, text] : files_.texts) write_file(folder / name, text);
  for (const auto& file : files_.copies) {
    checkpoint::copy_into(file.path, folder / file.name);
  }
}

fs::path Checkpoints::path(int64_t step) const {
  return dir_ / fmt::format("checkpoint-{}", step);
}

std::string Checkpoints::name_to_resume(int64_t step) const {
  return checkpoint::latest_checkpoint(dir_) == path(step) ? "latest" : path(step).string();
}

fs::path Checkpoints::best_path(const TrainerState& state) const {
  return dir_ / state.best_model_checkpoint;
}

void Checkpoints::save(TrainerState& state, bool wait) {
  if (dir_.empty()) return;
  finish();
  const auto final_path = path(state.global_step);
  const Doing doing("save " + final_path.filename().string());
  inject_fault("saving", strategy_, job_.world());
  const auto& group = strategy_.processes();
  const auto weights = strategy_.weights();
  // What is saved must be worth coming back to.
  checkpoint::check_finite(weights, group, state.global_step);
  if (state.best_step == state.global_step) {
    state.best_model_checkpoint = final_path.filename().string();
  }
  auto saving = std::make_unique<Saving>();
  saving->final_path = final_path;
  saving->step = state.global_step;
  saving->best = best_path(state);
  saving->state = state.to_json().dump(2) + "\n";
  const fs::path temporary = comm::ask_main(
                                 group, "make a checkpoint's folder",
                                 [&] {
                                   keep_output();
                                   saving->folder.emplace(final_path);
                                   return Json(saving->folder->temporary().string());
                                 },
                                 comm::Lasts::Long)
                                 .get<std::string>();
  const bool beside = arguments_.save_async && !wait;
  saving->tensors.emplace(
      temporary, weights, formats::shard_bytes(arguments_.output.max_shard_size), kOptimizer,
      strategy_.moments(), group, beside,
      [this, temporary] {
        if (job_.is_main()) save_small_files(temporary);
      },
      connect_writers());
  saving_ = std::move(saving);
  if (!beside) finish();
}

/// What ranks of other hosts send must not stand before the training's own messages.
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

/// For an error that all ranks meet.
void Checkpoints::keep() noexcept try { finish(); } catch (const std::exception&) {
  // That error is told.
}

/// A process that has nothing under way, or is done with it, waits for the others.
void Checkpoints::finish() {
  if (!saving_) return;
  const auto saving = std::move(saving_);
  const Doing doing("save " + saving->final_path.filename().string());
  auto manifest = saving->tensors->finish();
  comm::ask_main(
      strategy_.processes(), "finish a checkpoint",
      [&] {
        const auto& folder = saving->folder->temporary();
        manifest.check_files(folder);
        write_file(folder / kState, saving->state);
        manifest.set_others(folder);
        write_file(folder / checkpoint::Manifest::kName, manifest.to_text());
        saving->folder->commit();
        remove_old_run();
        if (arguments_.save_total_limit) {
          std::vector<fs::path> spare{saving->final_path};
          if (arguments_.load_best_model_at_end) spare.push_back(saving->best);
          checkpoint::rotate_checkpoints(dir_, *arguments_.save_total_limit, saving->step, spare);
        }
        return Json();
      },
      comm::Lasts::Long);
  callbacks_.notify([&](Callback& callback) { callback.on_save(saving->final_path); });
  tell_slow_save(saving->final_path, seconds_since(saving->began));
}

/// Once, and again when it has grown by half.
void Checkpoints::tell_slow_save(const fs::path& path, double seconds) {
  const double grace = job_.environment.interrupt_grace;
  if (grace <= 0 || seconds <= grace || seconds < 1.5 * slowest_save_) return;
  slowest_save_ = seconds;
  callbacks_.say(fmt::format(
      "warning: saving {} took {:.1f} s, but ranks are killed {:g} s after a signal that stops "
      "the job, and it would be lost; try --interrupt-grace {:.0f}, beside --nproc or of convoy "
      "launch",
      path.string(), seconds, grace, std::ceil(2 * seconds)));
}

bool Checkpoints::writing() const {
  return saving_ && !saving_->tensors->done();
}

void Checkpoints::save_model(const TrainerState& state) {
  if (dir_.empty()) return;
  const Doing doing("save model");
  comm::ask_main(strategy_.processes(), "hold the output folder", [&] {
    keep_output();
    std::error_code ignored;
    for (const char* name : kResults) fs::remove(dir_ / name, ignored);  // of the model before
    return Json();
  });
  // The weights first: a folder with them is known to hold a run.
  checkpoint::save_weights(dir_, strategy_.weights(), strategy_.processes(),
                           formats::shard_bytes(arguments_.output.max_shard_size),
                           connect_writers());
  comm::ask_main(
      strategy_.processes(), "finish the model",
      [&] {
        save_small_files(dir_);
        write_file(dir_ / kState, state.to_json().dump(2) + "\n");
        remove_old_run();
        return Json();
      },
      comm::Lasts::Long);
}

void Checkpoints::save_metrics(const std::string& split, const Metrics& metrics) {
  if (dir_.empty() || !job_.is_main()) return;
  write_file(dir_ / (split + "_results.json"), Json(metrics).dump(4) + "\n");
  const auto all_path = dir_ / "all_results.json";
  Json all = fs::exists(all_path) ? parse_json(read_file(all_path), all_path.string()) : Json();
  all.update(Json(metrics));
  write_file(all_path, all.dump(4) + "\n");
}

Metrics Checkpoints::saved_metrics(const std::string& split) const {
  const Json found = comm::ask_main(job_.world(), "look for results", [&]() -> Json {
    const auto file = dir_ / (split + "_results.json");
    std::error_code error;
    if (dir_.empty() || !fs::is_regular_file(file, error)) return Json::object();
    return parse_json(read_file(file), file.string());
  });
  Metrics out;
  for (const auto& [name, value] : found.items()) {
    if (value.is_number()) out[name] = value.get<double>();
  }
  return out;
}

bool Checkpoints::holds_model() const {
  return !dir_.empty() && formats::has_weights(dir_);
}

/// Each rank reads what it keeps.
void Checkpoints::load_weights(const fs::path& folder) {
  checkpoint::load_weights(folder, strategy_.weights(), strategy_.processes());
  strategy_.share(/*moments=*/false);
}

bool Checkpoints::load_best(const TrainerState& state) {
  const auto best = best_path(state);
  const bool found = comm::ask_main(job_.world(), "look for the best checkpoint", [&] {
    return !state.best_model_checkpoint.empty() && formats::has_weights(best);
  });
  if (found) {
    load_weights(best);
  } else {
    callbacks_.say(fmt::format(
        "warning: the checkpoint of the best step {} is not there ({}): the model is "
        "that of the last step",
        state.best_step, state.best_model_checkpoint.empty() ? "never saved" : best.string()));
  }
  return found;
}

}  // namespace convoy::train
