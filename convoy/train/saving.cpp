#include <optional>

#include "convoy/base/activity.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/launch/process.h"
#include "convoy/train/clock.h"
#include "convoy/train/run_files.h"
#include "convoy/train/trainer.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

void copy_into(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (same_file(from, to)) return;
  AtomicFile file(to);
  fs::copy_file(from, file.temporary(), fs::copy_options::overwrite_existing, error);
  if (error) {
    fail<FileError>("train", "cannot copy {} to {}: {}", from.string(), to.string(),
                    error.message());
  }
  file.commit();
}

}  // namespace

/// A checkpoint whose tensors are being written beside the training.
struct Trainer::Saving {
  fs::path final_path;
  std::string state;                   // as it was
  std::optional<AtomicFolder> folder;  // rank 0's
  std::optional<checkpoint::BackgroundSave> tensors;
};

void Trainer::save_small_files(const fs::path& folder) {
  if (!files_.config.is_null()) write_file(folder / kConfig, files_.config.dump(2) + "\n");
  for (const auto& [name, text] : files_.texts) write_file(folder / name, text);
  for (const auto& file : files_.copies) copy_into(file, folder / file.filename());
}

fs::path Trainer::checkpoint_path(int64_t step) const {
  return fs::path(arguments_.output.dir) / fmt::format("checkpoint-{}", step);
}

fs::path Trainer::best_path() const {
  return fs::path(arguments_.output.dir) / state_.best_model_checkpoint;
}

void Trainer::save_checkpoint() {
  if (arguments_.output.dir.empty()) return;
  finish_save();  // one at a time
  const auto final_path = checkpoint_path(state_.global_step);
  const Doing doing("save " + final_path.filename().string());
  inject_fault("saving");
  const auto& group = strategy_->processes();
  const auto weights = strategy_->weights();
  // What is saved must be worth coming back to.
  checkpoint::check_finite(weights, group, state_.global_step);
  if (state_.best_step == state_.global_step) {
    state_.best_model_checkpoint = final_path.filename().string();
  }
  saving_ = std::make_shared<Saving>();
  saving_->final_path = final_path;
  saving_->state = state_.to_json().dump(2) + "\n";
  const fs::path temporary = comm::ask_main(group, "make a checkpoint's folder", [&] {
                               saving_->folder.emplace(final_path);
                               save_small_files(saving_->folder->temporary());
                               return Json(saving_->folder->temporary().string());
                             }).get<std::string>();
  saving_->tensors.emplace(temporary, weights, arguments_.output.max_shard_bytes(), kOptimizer,
                           strategy_->moments(), group);
  if (!arguments_.save_async || ended()) finish_save();
}

/// A process that has nothing under way, or is done with it, waits for the others.
void Trainer::finish_save() {
  if (!saving_) return;
  const auto saving = std::move(saving_);
  const Doing doing("save " + saving->final_path.filename().string());
  const auto manifest = saving->tensors->finish();
  comm::ask_main(strategy_->processes(), "finish a checkpoint", [&] {
    const auto& folder = saving->folder->temporary();
    write_file(folder / kState, saving->state);
    write_file(folder / checkpoint::Manifest::kName, manifest.to_text());
    saving->folder->commit();
    if (arguments_.save_total_limit) {
      std::vector<fs::path> spare{saving->final_path};
      if (arguments_.load_best_model_at_end) spare.push_back(best_path());
      checkpoint::rotate_checkpoints(arguments_.output.dir, *arguments_.save_total_limit, spare);
    }
    return Json();
  });
  notify([&](Callback& callback) { callback.on_save(saving->final_path); });
}

bool Trainer::writes_checkpoint() const {
  return saving_ && !saving_->tensors->done();
}

/// Leaves with what a later run needs to go on. An evaluation that is due would take too long: that
/// run makes it up.
void Trainer::stop_early(bool epoch_end, Clock& clock) {
  stopped_by_ = last_.stop_signal;
  state_.evaluation_owed = evaluation_is_due(epoch_end);
  std::string what = "nothing was saved";
  if (arguments_.save_strategy != "no" && !arguments_.output.dir.empty()) {
    clock.pause();
    save_checkpoint();
    finish_save();
    clock.resume();
    what = fmt::format("saved {}; go on with --resume_from_checkpoint latest",
                       checkpoint_path(state_.global_step).string());
  }
  say(fmt::format("stopped by {} after step {}; {}", launch::signal_name(stopped_by_),
                  state_.global_step, what));
}

void Trainer::save_model() {
  if (arguments_.output.dir.empty()) return;
  const fs::path run = arguments_.output.dir;
  const Doing doing("save model");
  // The weights first: a folder with them is known to hold a run.
  checkpoint::save_weights(run, strategy_->weights(), strategy_->processes(),
                           arguments_.output.max_shard_bytes());
  comm::ask_main(strategy_->processes(), "finish the model", [&] {
    save_small_files(run);
    write_file(run / kState, state_.to_json().dump(2) + "\n");
    return Json();
  });
}

void Trainer::save_metrics(const std::string& split, const Metrics& metrics) {
  if (arguments_.output.dir.empty() || !job_.is_main()) return;
  const fs::path run = arguments_.output.dir;
  write_file(run / (split + "_results.json"), Json(metrics).dump(4) + "\n");
  const auto all_path = run / "all_results.json";
  Json all = fs::exists(all_path) ? parse_json(read_file(all_path), all_path.string()) : Json();
  all.update(Json(metrics));
  write_file(all_path, all.dump(4) + "\n");
}

void Trainer::load_best_model() {
  if (!arguments_.load_best_model_at_end || state_.best_step < 0) return;
  if (state_.best_step != state_.global_step) {
    const bool found = comm::ask_main(job_.group, "look for the best checkpoint", [&] {
      return !state_.best_model_checkpoint.empty() && formats::has_weights(best_path());
    });
    if (!found) {
      say(
          fmt::format("warning: the checkpoint of the best step {} is not there ({}): the model is "
                      "that of the last step",
                      state_.best_step,
                      state_.best_model_checkpoint.empty() ? "never saved" : best_path().string()));
      return;
    }
    load_weights(best_path());
  }
  for (const auto& entry : state_.log_history) {
    if (!entry.contains("eval_loss") || entry.at("step") != state_.best_step) continue;
    eval_metrics_ = entry.get<Metrics>();
    eval_metrics_.erase("step");
    eval_metrics_.erase("epoch");
  }
  evaluated_step_ = state_.global_step;
  say(fmt::format("the model is the best one, of step {}: {} {:.4f}", state_.best_step,
                  best_.metric(), state_.best_metric));
}

}  // namespace convoy::train
