#include "convoy/checkpoint/folder.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/checkpoint/lineage.h"
#include "convoy/checkpoint/manifest.h"

namespace convoy::checkpoint {
namespace fs = std::filesystem;

namespace {

/// Whether a run could resume from the checkpoint, as far as its manifest tells without the
/// weights.
bool looks_whole(const fs::path& checkpoint) {
  try {
    Manifest::read(checkpoint).check_files(checkpoint);
    return true;
  } catch (const FileError&) {
    return false;
  }
}

/// Step of a name checkpoint-<step>; nothing for other names.
std::optional<int64_t> step_in(const std::string& name) {
  int64_t step = 0;
  const bool is =
      name.starts_with(kCheckpointName) && parse_number(name.substr(kCheckpointName.size()), step);
  return is ? std::optional(step) : std::nullopt;
}

}  // namespace

std::string name_of_checkpoint(int64_t step) {
  return fmt::format("{}{}", kCheckpointName, step);
}

int64_t step_of(const fs::path& checkpoint) {
  return step_in(checkpoint.filename().string()).value_or(-1);
}

std::vector<std::pair<int64_t, fs::path>> all_named(const fs::path& run) {
  std::vector<std::pair<int64_t, fs::path>> out;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(run, error)) {
    if (const auto step = step_in(entry.path().filename().string())) out.emplace_back(*step, entry);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::pair<int64_t, fs::path>> list_checkpoints(const fs::path& run) {
  auto out = all_named(run);
  std::error_code error;
  std::erase_if(out, [&](const auto& each) { return !fs::exists(each.second / kState, error); });
  return out;
}

std::optional<fs::path> newest_named(const fs::path& run) {
  const auto all = Line(run).newest_first();
  return all.empty() ? std::nullopt : std::optional(all.front());
}

std::optional<fs::path> latest_checkpoint(const fs::path& run) {
  std::error_code error;
  for (auto& path : Line(run).newest_first()) {
    if (fs::exists(path / kState, error)) return std::move(path);
  }
  return std::nullopt;
}

void copy_into(const fs::path& from, const fs::path& to) {
  std::error_code error;
  if (same_file(from, to)) return;
  AtomicFile file(to);
  fs::copy_file(from, file.temporary(), fs::copy_options::overwrite_existing, error);
  if (error) {
    fail_to_write("checkpoint", fmt::format("cannot copy {} to {}", from.string(), to.string()),
                  error.value());
  }
  file.commit();
}

void rotate_checkpoints(const fs::path& run, int64_t keep, int64_t step,
                        const std::vector<fs::path>& spare) {
  const Line line(run);
  auto all = line.checkpoints();
  std::error_code error;
  std::erase_if(all, [&](const auto& each) { return !fs::exists(each.second / kState, error); });
  auto surplus = static_cast<int64_t>(all.size()) - keep;
  if (surplus <= 0) return;
  std::stable_partition(all.begin(), all.end(),
                        [step](const auto& each) { return each.first > step; });
  std::stable_partition(all.begin(), all.end(),
                        [](const auto& each) { return !looks_whole(each.second); });
  for (const auto& [of_step, path] : all) {
    if (surplus <= 0) return;
    const bool spared = std::any_of(spare.begin(), spare.end(), [&path](const fs::path& other) {
      return same_file(path, other);  // however it is spelled
    });
    if (spared) continue;
    remove_whole(path);
    --surplus;
  }
}

}  // namespace convoy::checkpoint
