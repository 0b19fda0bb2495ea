#include "convoy/parallel/mesh.h"

#include <fmt/ranges.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::parallel {

namespace {

size_t index(Axis axis) {
  return static_cast<size_t>(axis);
}

}  // namespace

const char* name_of(Axis axis) {
  constexpr std::array<const char*, kNumAxes> kNames{"pipeline", "replicate", "shard",
                                                     "expert",   "context",   "tensor"};
  return kNames.at(index(axis));
}

Mesh::Mesh(const Degrees& degrees, int rank, int num_ranks)
    : degrees_{static_cast<int>(degrees.pipeline), static_cast<int>(degrees.replicate),
               static_cast<int>(degrees.shard),    static_cast<int>(degrees.expert),
               static_cast<int>(degrees.context),  static_cast<int>(degrees.tensor)} {
  internal_check(rank >= 0 && rank < num_ranks, "parallel", "rank {} of {}", rank, num_ranks);
  int64_t others = 1;
  for (const Axis axis : kAxes) {
    const int degree = degrees_.at(index(axis));
    if (degree < (axis == Axis::Shard ? 0 : 1)) {
      fail<UsageError>("parallel", "the {} degree is {}; expected at least 1", name_of(axis),
                       degree);
    }
    if (axis != Axis::Shard) others *= degree;
  }
  if (num_ranks % others != 0) {
    std::vector<std::string> factors;
    for (const Axis axis : kAxes) {
      const int degree = degrees_.at(index(axis));
      if (axis != Axis::Shard && degree > 1) {
        factors.push_back(fmt::format("{} {}", degree, name_of(axis)));
      }
    }
    fail<UsageError>("parallel",
                     "{} = {} ranks do not divide the {} ranks of the job; try {} ranks",
                     join(factors, " x "), others, num_ranks, (num_ranks / others + 1) * others);
  }
  auto& shard = degrees_.at(index(Axis::Shard));
  const auto left = static_cast<int>(num_ranks / others);
  if (shard == 0) shard = left;
  if (shard != left) {
    fail<UsageError>("parallel",
                     "the shard degree is {}, but {} ranks over {} of the other axes leave {}; try "
                     "{} ranks, or a shard degree of {}",
                     shard, num_ranks, others, left, shard * others, left);
  }
  coordinates_ = coordinates_of(rank);
}

int Mesh::rank_at(const Numbers& coordinates) const {
  int rank = 0;
  for (size_t i = 0; i < kNumAxes; ++i) rank = rank * degrees_.at(i) + coordinates.at(i);
  return rank;
}

Mesh::Numbers Mesh::coordinates_of(int rank) const {
  Numbers out{};
  for (size_t i = kNumAxes; i-- > 0;) {
    out.at(i) = rank % degrees_.at(i);
    rank /= degrees_.at(i);
  }
  return out;
}

int Mesh::degree(AxisSet axes) const {
  int out = 1;
  for (const Axis axis : kAxes) out *= axes.contains(axis) ? degrees_.at(index(axis)) : 1;
  return out;
}

int Mesh::place(AxisSet axes) const {
  int out = 0;
  for (const Axis axis : kAxes) {
    if (axes.contains(axis)) {
      out = out * degrees_.at(index(axis)) + coordinates_.at(index(axis));
    }
  }
  return out;
}

Strides Mesh::strides_along(AxisSet axes) const {
  Strides out;
  int stride = 1;  // from one rank to the next along an axis
  for (size_t i = kNumAxes; i-- > 0;) {
    const int degree = degrees_.at(i);
    if (degree > 1 && axes.contains(kAxes.at(i))) {
      if (!out.empty() && out.back().first * out.back().second == stride) {
        out.back().first *= degree;  // goes on where the axis before ends
      } else {
        out.emplace_back(degree, stride);
      }
    }
    stride *= degree;
  }
  return out;
}

std::vector<int> Mesh::ranks_along(AxisSet axes) const {
  auto first = coordinates_;
  for (const Axis axis : kAxes) {
    if (axes.contains(axis)) first.at(index(axis)) = 0;
  }
  std::vector<int> out{rank_at(first)};
  const auto steps = strides_along(axes);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {  // ascending
    std::vector<int> more;
    more.reserve(out.size() * static_cast<size_t>(step->first));
    for (const int rank : out) {
      for (int n = 0; n < step->first; ++n) more.push_back(rank + n * step->second);
    }
    out = std::move(more);
  }
  return out;
}

Mesh Mesh::of(int rank) const {
  Mesh out = *this;
  out.coordinates_ = coordinates_of(rank);
  return out;
}

std::string Mesh::who(int rank) const {
  const auto together = of(rank).ranks_along(Axis::Context | Axis::Tensor);
  std::vector<std::string> axes;
  for (const Axis axis : {Axis::Context, Axis::Tensor}) {
    if (degree(axis) > 1) axes.emplace_back(name_of(axis));
  }
  return fmt::format("{} {}", axes.empty() ? "rank" : join(axes, " and ") + " ranks",
                     fmt::join(together, ", "));
}

std::string Mesh::to_text() const {
  std::vector<std::string> parts;
  const auto add = [&](AxisSet axes, const char* name) {
    if (degree(axes) > 1) parts.push_back(fmt::format("{} {}", degree(axes), name));
  };
  add(Axis::Pipeline, "pipeline");
  add(Axis::Replicate | Axis::Shard, "data");
  add(Axis::Expert, "expert");
  add(Axis::Context, "context");
  add(Axis::Tensor, "tensor");
  return parts.empty() ? "1 rank" : join(parts, " x ");
}

}  // namespace convoy::parallel
