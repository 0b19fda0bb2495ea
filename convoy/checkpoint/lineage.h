#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "convoy/base/json.h"

namespace convoy::checkpoint {

/// File in a run's folder: the lineage that the run follows, written once somebody went back to an
/// earlier step.
inline constexpr const char* kLineage = ".lineage.json";

/// Steps of a run after it went back to `from_step`.
struct Branch {
  int64_t id;  ///< a later one has a greater one
  int64_t from_step;
  bool operator==(const Branch&) const = default;
};

/// The branches on which a state came about, by ascending step; none: its run never went back.
using Lineage = std::vector<Branch>;

Json to_json(const Lineage& lineage);
/// Throws Json::exception.
Lineage lineage_from_json(const Json& json);

/// Lineage of a checkpoint, from the beginning of its state; nothing where that cannot be read.
std::optional<Lineage> lineage_of(const std::filesystem::path& checkpoint);

/// Checkpoints of a run and the line of them that it follows: the newest branch with what leads to
/// it. The others were left behind when somebody went back.
class Line {
 public:
  /// Lines of the entries of `run` that are called checkpoint-<step>, whatever is in them.
  explicit Line(const std::filesystem::path& run);

  /// Abandoned checkpoints, then those of the line, each by ascending step.
  const std::vector<std::pair<int64_t, std::filesystem::path>>& checkpoints() const& {
    return checkpoints_;
  }
  void checkpoints() const&& = delete;  // a loop over those of a temporary would outlive it
  /// Checkpoints of the line alone.
  std::span<const std::pair<int64_t, std::filesystem::path>> followed() const& {
    return std::span(checkpoints_).subspan(num_left_behind_);
  }
  void followed() const&& = delete;
  /// Paths of all of them in the order in which a run looks for one to go on from: the last of the
  /// line first.
  std::vector<std::filesystem::path> newest_first() const;
  const Lineage& lineage() const { return lineage_; }
  /// Number of a branch that begins now.
  int64_t next_id() const { return next_id_; }

 private:
  std::vector<std::pair<int64_t, std::filesystem::path>> checkpoints_;
  size_t num_left_behind_ = 0;
  Lineage lineage_;
  int64_t next_id_ = 1;
};

/// Whether a state of `step` with the lineage `of` leads to, or is on, `line`.
bool is_on(const Lineage& line, int64_t step, const Lineage& of);

}  // namespace convoy::checkpoint
