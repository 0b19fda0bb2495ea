#include "convoy/train/checkpoints/disk_space.h"

#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/text.h"

namespace convoy::train {
namespace fs = std::filesystem;

namespace {

int64_t checkpoints_at_once(const Saves& saves) {
  if (!saves.limit) return saves.num_checkpoints;
  const int64_t more = std::max<int64_t>(1, *saves.limit + 1 - saves.num_there);
  return std::min(saves.num_checkpoints, more);
}

}  // namespace

int64_t needed_bytes(const Saves& saves) {
  return checkpoints_at_once(saves) * saves.checkpoint_bytes + saves.model_bytes;
}

std::string tell_lack_of_space(const Saves& saves, const fs::path& folder, int64_t free_bytes) {
  const int64_t needed = needed_bytes(saves), at_once = checkpoints_at_once(saves);
  if (needed <= free_bytes) return "";
  const auto bytes = [](int64_t count) { return human_bytes(static_cast<size_t>(count)); };
  const bool fewer = at_once > 2;
  return fmt::format(
      "{} has {} free, and this run takes up to {} there: {} of {}, and the model of {}; try {}"
      "another output.dir",
      folder.string(), bytes(free_bytes), bytes(needed), plural(at_once, "checkpoint"),
      bytes(saves.checkpoint_bytes), bytes(saves.model_bytes),
      fewer ? "--save_total_limit 1, or " : "");
}

std::optional<int64_t> free_space(const fs::path& folder) {
  std::error_code error;
  auto place = fs::absolute(folder, error);
  while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  const auto space = fs::space(place, error);
  if (error) return std::nullopt;
  constexpr auto kMost = static_cast<std::uintmax_t>(INT64_MAX);
  return static_cast<int64_t>(std::min(space.available, kMost));
}

}  // namespace convoy::train
