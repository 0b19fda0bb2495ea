#include "cli/train/window_folders.h"

#include <algorithm>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json_value.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/formats/safetensors_folder.h"
#include "convoy/job/job_id.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/run_sums.h"

namespace convoy::cli {

namespace fs = std::filesystem;

namespace {

/// Sum over all tensors of a model's files, by their names.
std::string sum_of_model(const fs::path& folder) {
  const formats::SafetensorsFolder files(folder);
  uint64_t sum = 0;
  for (const auto& [name, file] : files.tensors()) {
    const auto bytes = files.bytes(name);
    sum += hash_combine(hash_text(name), checksum(bytes.data(), bytes.size(), 1, 0));
  }
  return train::sum_text(sum);
}

/// Newest folder with a file of a window's run: its last checkpoint, else the run's own folder.
fs::path newest_place(const fs::path& folder) {
  return checkpoint::latest_checkpoint(folder).value_or(folder);
}

/// Content of kWindow; null where the file does not exist.
Json window_file(const fs::path& place) {
  const auto file = place / kWindow;
  return fs::exists(file) ? parse_json(read_file(file), file.string()) : Json();
}

/// Checks that a window that is complete, or is to be resumed, belongs to this run.
void check_earlier(const tasks::Window& window, const std::string& before, const fs::path& folder,
                   const OptionTable& table) {
  const auto place = newest_place(folder);
  if (const auto known = window_file(place); !known.is_null()) {
    const auto began = value_from<std::string>(known.at(kBeganWith));
    const auto told = [](const std::string& name) {
      return name.empty() ? std::string("weights of its own") : "those of window " + name;
    };
    if (began != before) {
      fail<UsageError>("cli",
                       "{} began with {}, here it begins with {}; try another --output_dir, or "
                       "--overwrite_output_dir without --resume_from_checkpoint",
                       folder.string(), told(began), told(before));
    }
  }
  std::vector<std::string> other;
  const auto saved = toml_values(place / "run.toml");
  const auto was = [&](const std::string& key, const std::string& now) {
    const auto found = saved.find(key);
    return found == saved.end() ? now : found->second;
  };
  const auto note = [&](const std::string& key, const std::string& now) {
    other.push_back(fmt::format("{} = {}, here {}", key, was(key, now), now));
  };
  for (const auto& [key, now] : toml_values_of(table.to_kept_toml())) {
    const bool counts = key.starts_with("model.") || key == "train.seed" ||
                        key == "train.exclude_seen" || key == "train.eval_time";
    if (counts && was(key, now) != now) note(key, now);
  }
  for (const auto& [key, now] : window.options) {
    std::error_code error;
    // A missing path counts as moved, not as changed.
    if (fs::exists(was(key, now), error) && !same_file(was(key, now), now)) note(key, now);
  }
  if (other.empty()) return;
  fail<UsageError>("cli",
                   "{} was trained with {}; try the same, another --output_dir, or "
                   "--overwrite_output_dir without --resume_from_checkpoint",
                   folder.string(), join(other, "; "));
}

}  // namespace

bool Beginning::goes_on(const fs::path& folder) const {
  const auto last = checkpoint::latest_checkpoint(folder);
  if (!resumes() || !last) return false;
  if (asked || job_id.empty()) return true;
  const auto file = *last / checkpoint::kState;
  const auto saved = parse_json(read_file(file), file.string());
  return job::is_same_job(saved.value("job_id", ""), job_id);
}

Results earlier_results(const fs::path& base, const std::vector<tasks::Window>& windows) {
  Results out;
  const auto file = base / kResults;
  if (!fs::exists(file)) return out;
  const auto known = parse_json(read_file(file), file.string());
  for (const auto& result : known.at("windows")) {
    const bool same = out.size() < windows.size() &&
                      result.at("trained_on") == windows[out.size()].name &&
                      result.at("evaluated_on") == windows[out.size()].evaluated_on;
    if (!same) break;
    out.push_back(result);
  }
  while (!out.empty() && !formats::has_weights(base / windows[out.size() - 1].name)) out.pop_back();
  return out;
}

std::string window_note(const fs::path& before) {
  Json note{{kBeganWith, before.filename().string()}};
  if (!before.empty()) note[kWeightsSum] = sum_of_model(before);
  return note.dump(2) + "\n";
}

void check_weights_sum(const fs::path& folder, const fs::path& before) {
  const auto known = window_file(newest_place(folder));
  if (known.is_null() || !known.contains(kWeightsSum) || !formats::has_weights(before)) return;
  if (value_from<std::string>(known.at(kWeightsSum)) == sum_of_model(before)) return;
  fail<UsageError>(
      "cli",
      "{0} began with weights that {1} does not hold any more; try to bring them back, "
      "or remove {0}, the windows behind it and {2} to train those windows again",
      folder.string(), before.string(), kResults);
}

void check_folders(const fs::path& base, const std::vector<tasks::Window>& windows,
                   const Beginning& beginning, const Configured& configured) {
  const bool overwrites = !beginning.resumes() && configured.training.output.overwrite;
  if (overwrites || (beginning.is_again && !beginning.asked)) return;
  bool found = fs::exists(base / kResults);
  for (size_t i = 0; i < windows.size(); ++i) {
    const auto folder = base / windows[i].name;
    const bool holds_run =
        formats::has_weights(folder) || checkpoint::latest_checkpoint(folder).has_value();
    if (!holds_run) continue;
    found = true;
    if (!beginning.asked) {
      fail<UsageError>("cli",
                       "{} already holds a run; try --resume_from_checkpoint latest, "
                       "--overwrite_output_dir, or another folder",
                       folder.string());
    }
    check_earlier(windows[i], i > 0 ? windows[i - 1].name : "", folder, configured.table);
  }
  if (found || !beginning.asked) return;
  fail<UsageError>("cli",
                   "there is no window to go on with in {}; try without --resume_from_checkpoint",
                   base.string());
}

std::vector<std::string> notes_of_done(const fs::path& base,
                                       const std::vector<tasks::Window>& windows, size_t num_done,
                                       const OptionTable& table) {
  std::vector<std::string> out, other;
  if (num_done == 0) return out;
  for (size_t i = 0; i + 1 < num_done; ++i) {
    const auto folder = base / windows[i].name;
    if (formats::has_weights(folder)) continue;
    out.push_back(
        fmt::format("warning: {} holds no model any more; its results stand", folder.string()));
  }
  const auto& last = windows[num_done - 1];
  const auto saved = toml_values(newest_place(base / last.name) / "run.toml");
  for (const auto& [key, now] : toml_values_of(table.to_kept_toml())) {
    const auto was = saved.find(key);
    const bool counts = key.starts_with("train.") && key != "train.resume_from_checkpoint";
    if (!counts || was == saved.end() || was->second == now) continue;
    other.push_back(fmt::format("{} = {} instead of {}", key, now, was->second));
  }
  if (!other.empty()) {
    out.push_back(
        fmt::format("warning: the windows up to {} are done with: {} for later ones alone",
                    last.name, join(other)));
  }
  if (num_done == windows.size()) {
    out.push_back(fmt::format("nothing is left to train: all {} are done with",
                              plural(std::ssize(windows), "window")));
  }
  return out;
}

}  // namespace convoy::cli
