#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

namespace convoy::checkpoint {

/// `checkpoint-<step>` folders of a run, by ascending step. Unfinished ones are not listed.
std::vector<std::pair<int64_t, std::filesystem::path>> list_checkpoints(
    const std::filesystem::path& run);

std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& run);

/// Removes the oldest checkpoints until `keep` are left; never removes one of `spare`.
void rotate_checkpoints(const std::filesystem::path& run, int64_t keep,
                        const std::vector<std::filesystem::path>& spare = {});

}  // namespace convoy::checkpoint
