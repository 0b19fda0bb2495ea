#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "convoy/parallel/parallelism.h"

namespace convoy::parallel {

/// Ways in which the ranks of a job share its work, slowest to fastest: tensor neighbours share
/// a host. Data parallelism has three: ranks along Shard keep one state replica together,
/// ranks along Replicate keep equal parts of several, ranks along Expert keep a state replica
/// together, too, and each has some experts of each layer whole, which the others do not have. The
/// shard axis shares out
/// *ownership* of the state (its first values, its norm, its files) at every stage of ZeRO, 0
/// included. So plain DistributedDataParallel over N ranks has shard = N and replicate = 1, where
/// torchtitan writes dp_replicate = N; people are told the product, as "data".
enum class Axis { Pipeline, Replicate, Shard, Expert, Context, Tensor };
inline constexpr size_t kNumAxes = 6;
inline constexpr std::array<Axis, kNumAxes> kAxes{Axis::Pipeline, Axis::Replicate, Axis::Shard,
                                                  Axis::Expert,   Axis::Context,   Axis::Tensor};
const char* name_of(Axis axis);

/// Some of the axes.
class AxisSet {
 public:
  constexpr AxisSet(Axis axis)
      : bits_(1U << static_cast<unsigned>(axis)) {}  // NOLINT: an axis is a set
  constexpr bool contains(Axis axis) const { return (bits_ & AxisSet(axis).bits_) != 0; }
  friend constexpr AxisSet operator|(AxisSet a, AxisSet b) {
    a.bits_ |= b.bits_;
    return a;
  }

 private:
  unsigned bits_;
};

constexpr AxisSet operator|(Axis a, Axis b) {
  return AxisSet(a) | AxisSet(b);
}

/// Axes over which the rows of a batch are dealt.
inline constexpr AxisSet kRows = Axis::Replicate | Axis::Shard | Axis::Expert;
/// Axes over which gradients are summed.
inline constexpr AxisSet kGradients = kRows | Axis::Context;
/// Axes over which one state replica of a stage lies.
inline constexpr AxisSet kState = Axis::Shard | Axis::Expert | Axis::Context;
/// Axes of kGradients and of kState along which ranks have the same experts.
inline constexpr AxisSet kExpertGradients = Axis::Replicate | Axis::Shard | Axis::Context;
inline constexpr AxisSet kExpertState = Axis::Shard | Axis::Context;
inline constexpr AxisSet kWorld = kGradients | Axis::Pipeline | Axis::Tensor;

/// Layout of a group of ranks among all: pairs of a number of ranks and their distance, from the
/// ranks next to each other on; each pair repeats the ones before it, further apart.
using Strides = std::vector<std::pair<int, int>>;

/// Coordinates of a rank among the ranks of a job. Numbers only.
/// rank = ((((pipeline * R + replicate) * S + shard) * E + expert) * C + context) * T + tensor.
class Mesh {
 public:
  /// Mesh of one rank.
  Mesh() = default;
  /// Throws UsageError saying which degree is wrong when their product is not `num_ranks`.
  Mesh(const Degrees& degrees, int rank, int num_ranks);

  int rank() const { return rank_at(coordinates_); }
  int num_ranks() const { return degree(kWorld); }
  /// Ranks along some axes, all of one rank included.
  int degree(AxisSet axes) const;
  /// Index of this rank among ranks_along(axes).
  int place(AxisSet axes) const;
  /// Returns the ranks that differ from this one on these axes only, itself included, in order.
  std::vector<int> ranks_along(AxisSet axes) const;
  /// Strides of these ranks among all, equal for every rank.
  Strides strides_along(AxisSet axes) const;
  /// Coordinates of another rank.
  Mesh of(int rank) const;

  /// Ranks that compute what `rank` does: "rank 3", or all that compute the same rows together, as
  /// "tensor ranks 2, 3", "context ranks 0, 1" or "context and tensor ranks 0, 1, 2, 3".
  std::string who(int rank) const;

  /// "2 pipeline x 4 data": replicate x shard are told as data, axes of one rank are left out; "1
  /// rank". Expert ranks, which have other rows, too, are told beside: "2 data x 2 expert".
  std::string to_text() const;

 private:
  using Numbers = std::array<int, kNumAxes>;
  int rank_at(const Numbers& coordinates) const;
  Numbers coordinates_of(int rank) const;

  Numbers degrees_{1, 1, 1, 1, 1, 1};
  Numbers coordinates_{};
};

}  // namespace convoy::parallel
