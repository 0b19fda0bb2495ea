#include <set>

#include "convoy/base/activity.h"
#include "convoy/base/files.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/save.h"
#include "convoy/checkpoint/weights.h"
#include "convoy/comm/agree.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/formats/shard_size.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"

// The model at the end of a run, and its results.
namespace convoy::train {
namespace fs = std::filesystem;

/// Key in the state beside a model of the step that its weights are of.
constexpr const char* kModelStep = "model_step";

void Checkpoints::save_model(const TrainerState& state, int64_t model_step) {
  if (dir_.empty()) return;
  space_.run(
      strategy_.processes(), [this] { return saves_of(0).model_bytes; },
      [&] { write_model(state, model_step); });
}

/// Saves the model as save_model() does, where the disk has space.
void Checkpoints::write_model(const TrainerState& state, int64_t model_step) {
  const Doing doing("save model");
  std::optional<AtomicFolder> folder;  // rank 0's
  const fs::path temporary =
      comm::ask_main(strategy_.processes(), "make a folder for the model", [&] {
        keep_output();
        folder.emplace(dir_ / "model");
        return Json(folder->temporary().string());
      }).get<std::string>();
  checkpoint::save_weights(temporary, saved_weights(), strategy_.processes(),
                           formats::shard_bytes(arguments_.output.max_shard_size),
                           connect_writers());
  comm::ask_main(
      strategy_.processes(), "finish the model",
      [&] {
        save_small_files(temporary);
        keep_output();
        put_in_place(temporary);
        auto end = state.to_json();
        end[kModelStep] = model_step;
        write_file(dir_ / kState, end.dump(2) + "\n");
        remove_old_run(best_path(state));
        return Json();
      },
      comm::Lasts::Long);
}

/// Gives written files their final names. Removes the old state and index first: without a state
/// nothing takes the files for a finished run, and without an index nothing mixes shards.
void Checkpoints::put_in_place(const fs::path& model) const {
  std::error_code ignored;
  fs::remove(dir_ / kState, ignored);
  for (const char* name : kResults) fs::remove(dir_ / name, ignored);  // of the model before
  fs::remove(dir_ / formats::kWeightsIndex, ignored);
  const auto place = [&](const fs::path& from) {
    const auto to = dir_ / from.filename();
    AtomicFile file(to);
    std::error_code error;
    fs::rename(from, file.temporary(), error);
    if (error) {  // behind a link that leads to another disk
      checkpoint::copy_into(from, to);
    } else {
      file.commit();
    }
  };
  // The weights first: a folder with them is known to hold a run.
  std::set<std::string> weights;
  for (const auto& path : formats::list_weights(model)) weights.insert(path.filename().string());
  for (const auto& name : weights) {
    if (name != formats::kWeightsIndex) place(model / name);
  }
  std::vector<fs::path> others;
  for (const auto& entry : fs::directory_iterator(model)) {
    const auto name = entry.path().filename().string();
    if (entry.is_regular_file() && !weights.contains(name)) others.push_back(entry.path());
  }
  for (const auto& path : others) place(path);
  if (weights.contains(formats::kWeightsIndex)) place(model / formats::kWeightsIndex);
  formats::remove_weights(dir_, weights);
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
    try {
      return parse_json(read_file(file), file.string());
    } catch (const FileError&) {
      return Json::object();  // it is written anew
    }
  });
  return metrics_from_json(found);
}

bool Checkpoints::holds_model() const {
  return !dir_.empty() && formats::has_weights(dir_);
}

bool Checkpoints::holds_model_of(const TrainerState& state) const {
  if (!holds_model()) return false;
  try {
    const auto file = dir_ / kState;
    const auto saved = parse_json(read_file(file), file.string());
    const auto wanted = state.to_json();
    const auto same = [&](const char* key, const Json& usual) {
      return saved.value(key, usual) == wanted.value(key, usual);
    };
    const bool best = arguments_.load_best_model_at_end && state.best_step >= 0;
    const Json model_step = best ? state.best_step : state.global_step;
    // Older states do not tell of which step the model is.
    return saved.is_object() && same("global_step", -1) && same("best_global_step", -1) &&
           same("lineage", Json::array()) && same("total_loss_sum", 0.0) &&
           saved.value(kModelStep, model_step) == model_step &&
           begins_with(saved.value("log_history", Json::array()), state.log_history);
  } catch (const FileError&) {
    return false;
  }
}

}  // namespace convoy::train
