#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace convoy::checkpoint {

// Files beside the weights in a checkpoint; the state is written last but for the manifest.
inline constexpr const char* kOptimizer = "optimizer.safetensors";
inline constexpr const char* kState = "trainer_state.json";
inline constexpr const char* kConfig = "config.json";

inline constexpr std::string_view kCheckpointName = "checkpoint-";  ///< then the step

/// Name of the checkpoint of a step.
std::string name_of_checkpoint(int64_t step);

/// `checkpoint-<step>` folders of a run, by ascending step. Unfinished ones are not listed.
std::vector<std::pair<int64_t, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& run);

/// The one to go on from: the last of the line that the run follows (lineage.h).
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run);

/// The entries of `run` that are called checkpoint-<step>, by ascending step, whatever is in them.
std::vector<std::pair<int64_t, std::filesystem::path>> all_named(const std::filesystem::path& run);
/// The last of the run's line among them.
std::optional<std::filesystem::path> newest_named(const std::filesystem::path& run);

/// The step that the name of a checkpoint tells; -1: it is no such name.
int64_t step_of(const std::filesystem::path& checkpoint);

/// Copies a file, which appears whole or not at all. Throws FileError.
void copy_into(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes checkpoints until `keep` are left: first those whose files are not as their manifests
/// say, then those that a run left behind when it went on from an earlier one or that lie beyond
/// `step`, then the oldest; never one of `spare`.
void rotate_checkpoints(const std::filesystem::path& run, int64_t keep, int64_t step,
                        const std::vector<std::filesystem::path>& spare = {});

}  // namespace convoy::checkpoint
