#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// The ways in which the ranks of a job share its work, slowest to fastest: tensor neighbours share
/// a host. Rank = ((pipeline * D + data) * C + context) * T + tensor.
enum class Axis { Pipeline, Data, Context, Tensor };
inline constexpr std::array<Axis, 4> kAxes{Axis::Pipeline, Axis::Data, Axis::Context, Axis::Tensor};
const char* name_of(Axis axis);

/// How many ranks each axis has.
struct MeshDegrees {
  int pipeline = 1;
  int data = 0;  ///< 0: what the others leave
  int context = 1;
  int tensor = 1;
};

/// Makes the group of some ranks of the job, which are called in ascending order by each of them.
using Connect = std::function<Group(const std::vector<int>& ranks, const std::string& name)>;

/// Names the ranks of a job by their coordinates, and gives this rank its Groups: all ranks, those
/// along each axis, those that share the samples of a step. Groups of the same ranks are one.
class Mesh {
 public:
  /// One rank.
  Mesh() = default;
  /// Throws UsageError saying which degree is wrong when their product is not `num_ranks`. Calls
  /// `connect` for each group of more than one rank.
  Mesh(const MeshDegrees& degrees, int rank, int num_ranks, const Connect& connect);

  int degree(Axis axis) const { return degrees_[index(axis)]; }
  /// This rank's place on an axis.
  int coordinate(Axis axis) const { return coordinates_[index(axis)]; }
  const Group& group(Axis axis) const { return groups_[index(axis)]; }
  const Group& world() const { return world_; }
  /// Data x context: gradients are summed over it.
  const Group& sharing() const { return sharing_; }

  int rank_at(const std::array<int, 4>& coordinates) const;
  std::array<int, 4> coordinates_of(int rank) const;
  /// The ranks that differ from this one on these axes only, itself included, in order.
  std::vector<int> ranks_along(const std::vector<Axis>& axes) const;
  std::vector<int> ranks_along(Axis axis) const { return ranks_along(std::vector{axis}); }

  /// "2 pipeline x 4 data", axes of one rank left out; "1 rank".
  std::string to_text() const;

 private:
  static size_t index(Axis axis) { return static_cast<size_t>(axis); }

  std::array<int, 4> degrees_{1, 1, 1, 1};
  std::array<int, 4> coordinates_{};
  std::array<Group, 4> groups_;
  Group world_, sharing_;
};

}  // namespace convoy::comm
