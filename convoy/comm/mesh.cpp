#include "convoy/comm/mesh.h"

#include <functional>
#include <map>
#include <numeric>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::comm {

const char* name_of(Axis axis) {
  constexpr const char* kNames[] = {"pipeline", "data", "context", "tensor"};
  return kNames[static_cast<size_t>(axis)];
}

Mesh::Mesh(const MeshDegrees& degrees, int rank, int num_ranks, const Connect& connect)
    : degrees_{degrees.pipeline, degrees.data, degrees.context, degrees.tensor} {
  internal_check(rank >= 0 && rank < num_ranks, "comm", "rank {} of {}", rank, num_ranks);
  int64_t others = 1;
  for (const Axis axis : kAxes) {
    const int degree = degrees_[index(axis)];
    if (degree < (axis == Axis::Data ? 0 : 1)) {
      fail<UsageError>("parallel", "the {} degree is {}; expected at least 1", name_of(axis),
                       degree);
    }
    if (axis != Axis::Data) others *= degree;
  }
  auto& data = degrees_[index(Axis::Data)];
  if (num_ranks % others != 0) {
    fail<UsageError>("parallel",
                     "{} pipeline x {} context x {} tensor = {} ranks do not divide the {} ranks "
                     "of the job; try {} ranks",
                     degrees.pipeline, degrees.context, degrees.tensor, others, num_ranks,
                     (num_ranks / others + 1) * others);
  }
  const auto left = static_cast<int>(num_ranks / others);
  if (data == 0) data = left;
  if (data != left) {
    fail<UsageError>("parallel",
                     "the data degree is {}, but {} ranks over {} of the other axes leave {}; try "
                     "{} ranks, or a data degree of {}",
                     data, num_ranks, others, left, data * others, left);
  }
  coordinates_ = coordinates_of(rank);
  std::map<std::vector<int>, Group> made;
  const auto make = [&](const std::vector<Axis>& axes, const std::string& name) -> Group {
    const auto ranks = ranks_along(axes);
    if (ranks.size() == 1) return {};
    const auto known = made.find(ranks);
    if (known != made.end()) return known->second;
    return made[ranks] = connect(ranks, fmt::format("{}-{}", name, ranks.front()));
  };
  world_ = make({kAxes.begin(), kAxes.end()}, "world");
  for (const Axis axis : kAxes) groups_[index(axis)] = make({axis}, name_of(axis));
  sharing_ = make({Axis::Data, Axis::Context}, "sharing");
}

int Mesh::rank_at(const std::array<int, 4>& coordinates) const {
  int rank = 0;
  for (size_t i = 0; i < 4; ++i) rank = rank * degrees_[i] + coordinates[i];
  return rank;
}

std::array<int, 4> Mesh::coordinates_of(int rank) const {
  std::array<int, 4> out{};
  for (size_t i = 4; i-- > 0;) {
    out[i] = rank % degrees_[i];
    rank /= degrees_[i];
  }
  return out;
}

std::vector<int> Mesh::ranks_along(const std::vector<Axis>& axes) const {
  std::array<bool, 4> free{};
  for (const Axis axis : axes) free[index(axis)] = true;
  std::vector<int> out;
  const int num_ranks = std::accumulate(degrees_.begin(), degrees_.end(), 1, std::multiplies<>());
  for (int rank = 0; rank < num_ranks; ++rank) {
    const auto place = coordinates_of(rank);
    bool same = true;
    for (size_t i = 0; i < 4; ++i) same = same && (free[i] || place[i] == coordinates_[i]);
    if (same) out.push_back(rank);
  }
  return out;
}

std::string Mesh::to_text() const {
  std::vector<std::string> parts;
  for (const Axis axis : kAxes) {
    if (degree(axis) > 1) parts.push_back(fmt::format("{} {}", degree(axis), name_of(axis)));
  }
  return parts.empty() ? "1 rank" : join(parts, " x ");
}

}  // namespace convoy::comm
