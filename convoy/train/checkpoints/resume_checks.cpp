#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/manifest.h"
#include "convoy/models/wrapper.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/checkpoints/run_files.h"
#include "convoy/train/checkpoints/saved_state.h"

// Whether a checkpoint fits the run that goes on from it.
namespace convoy::train {
namespace fs = std::filesystem;

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

/// Throws where the checkpoint of a copy's best step was being saved when the ranks ended: it is
/// made again only by a run that goes on from an earlier step.
void Checkpoints::check_best_was_saved(const TrainerState& saved) const {
  if (!arguments_.load_best_model_at_end || saved.best_step < 0) return;
  const auto all = checkpoint::list_checkpoints(dir_);
  const bool saved_since = !all.empty() && all.back().first >= saved.best_step;
  if (saved_since || best_path(saved) != path(saved.best_step)) return;
  fail<FileError>("train", "the checkpoint of its best step {} was not saved", saved.best_step);
}

}  // namespace convoy::train
