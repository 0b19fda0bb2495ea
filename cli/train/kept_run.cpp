#include "cli/train/kept_run.h"

#include <limits>

#include "cli/train/window_folders.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/json_value.h"
#include "convoy/checkpoint/folder.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/formats/safetensors_folder.h"

namespace convoy::cli {

namespace {

namespace fs = std::filesystem;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

/// Number `key` of the state in `folder`, which must exist.
int64_t number_of_state(const fs::path& folder, const char* key) {
  const auto file = folder / checkpoint::kState;
  const auto state = parse_json(read_file(file), file.string());
  const auto found = state.find(key);
  return found == state.end() ? 0 : value_from<int64_t>(*found);
}

/// State at the end of the run, where it was saved on the branch `line`.
std::optional<KeptRun> end_of(const fs::path& run, const checkpoint::Line& line) {
  if (!is_file(run / "run.toml")) return std::nullopt;
  if (!is_file(run / checkpoint::kState)) return KeptRun{run, 0};
  KeptRun out{run, number_of_state(run, "global_step")};
  const auto lineage = checkpoint::lineage_of(run);
  if (lineage && !checkpoint::is_on(line.lineage(), out.step, *lineage)) return std::nullopt;
  return out;
}

}  // namespace

KeptRun kept_of_step(const fs::path& run, int64_t step) {
  const checkpoint::Line line(run);
  KeptRun out;
  const auto take = [&](const KeptRun& kept) {
    const bool is_better = kept.step >= step ? out.step < step || kept.step < out.step
                                             : out.step < step && kept.step > out.step;
    if (out.folder.empty() || is_better) out = kept;
  };
  for (const auto& [saved, path] : line.followed()) {
    if (is_file(path / "run.toml") && is_file(path / checkpoint::kState)) take({path, saved});
  }
  if (const auto end = end_of(run, line)) take(*end);
  return out;
}

fs::path newest_options(const fs::path& run) {
  const auto kept = kept_of_step(run, std::numeric_limits<int64_t>::max());
  return kept.folder.empty() ? fs::path() : kept.options();
}

fs::path checkpoint_before(const fs::path& run, int64_t step) {
  fs::path out;
  const checkpoint::Line line(run);
  for (const auto& [saved, path] : line.followed()) {
    if (saved < step && is_file(path / checkpoint::kState)) out = path;
  }
  return out;
}

std::optional<fs::path> checkpoint_of_end(const fs::path& run) {
  const auto last = checkpoint::latest_checkpoint(run);
  const bool is_of_end =
      last && number_of_state(*last, "global_step") == number_of_state(run, "global_step");
  return is_of_end ? last : std::nullopt;
}

BeganWith began_with(const fs::path& run, const KeptRun& kept, bool is_needed) {
  const auto file = kept.folder / kWindow;
  if (!is_file(file)) return {};
  const auto name = parse_json(read_file(file), file.string()).value(kBeganWith, "");
  if (name.empty()) return {};
  BeganWith out;
  out.weights = fs::absolute(run).lexically_normal();
  if (!out.weights.has_filename()) out.weights = out.weights.parent_path();
  out.weights = out.weights.parent_path() / name;
  if (!formats::has_weights(out.weights)) {
    if (!is_needed) return {};
    fail<FileError>("cli", "{} began with the weights of window {}, but {} holds none",
                    run.string(), name, out.weights.string());
  }
  if (!is_needed || !is_file(kept.folder / checkpoint::kState) ||
      number_of_state(kept.folder, "earlier_updates") == 0) {
    return out;
  }
  const auto last = checkpoint_of_end(out.weights);
  if (!last) {
    fail<FileError>("cli",
                    "{} began with the moments of window {}, but {} has no checkpoint of its last "
                    "step; try a step after the first checkpoint of {}",
                    run.string(), name, out.weights.string(), run.string());
  }
  out.moments = *last;
  return out;
}

}  // namespace convoy::cli
