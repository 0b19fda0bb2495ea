#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

// Internal to the component: whether the disk has room for what a run will save.
namespace convoy::train {

/// Bytes that a run is about to write.
struct Saves {
  int64_t checkpoint_bytes = 0, model_bytes = 0;
  int64_t num_checkpoints = 0;   ///< that it will write
  int64_t num_there = 0;         ///< that its folder has already
  std::optional<int64_t> limit;  ///< save_total_limit
};

/// Bytes that they need at the most beside what is there: a checkpoint more than the limit stands
/// until the oldest is removed, and the model comes at the end.
int64_t needed_bytes(const Saves& saves);

/// A warning where `folder`, or what it will lie in, has less room; else "".
std::string tell_lack_of_space(const Saves& saves, const std::filesystem::path& folder,
                               int64_t free_bytes);

/// Bytes that can be written there; nothing where the system does not tell.
std::optional<int64_t> free_space(const std::filesystem::path& folder);

}  // namespace convoy::train
