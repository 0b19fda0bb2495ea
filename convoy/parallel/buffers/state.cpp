#include "convoy/parallel/buffers/state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

/// Adds a piece that several ranks have, cut so that each of them writes a part of it.
void add_dealt(std::vector<StatePiece>& pieces, const StatePiece& piece, const Turn& turn) {
  constexpr int64_t kPage = 1024;  // elements
  const int64_t page = piece.stride == 0 ? kPage : 1, length = piece.values.size(0);
  // Row at which the part of a replica begins: parts are equal, but for whole pages.
  const auto cut = [&](int64_t replica) {
    const int64_t at = length * replica / turn.of;
    return replica == turn.of ? length : std::min((at + page - 1) / page * page, length);
  };
  const auto add = [&](int64_t begin, int64_t end, bool writes) {
    if (begin == end) return;
    pieces.push_back(piece.part(begin, end - begin));
    pieces.back().owned = piece.owned && turn.number == 0;
    pieces.back().writes = piece.owned && writes;
  };
  const int64_t begin = cut(turn.number), end = cut(turn.number + 1);
  add(0, begin, false);
  add(begin, end, true);
  add(end, length, false);
}

/// Some elements of a bucket that a rank has, and its turn among the ranks that have them.
struct Elements {
  Extent extent;
  Turn turn;
};

/// Appends every parameter, or only those that are trained, with this rank's pieces of a kind:
/// those of the elements that `of_bucket` tells.
void add(State& state, const FlatBuffers& flat, Kind kind, size_t moment,
         const std::function<Elements(int64_t bucket)>& of_bucket) {
  const bool moments = kind == Kind::Moments;
  const auto prefix = moments ? flat.states()[moment].name + "." : "";
  const auto dtype_of = [&](const nn::ParamSpec& spec) {
    if (moments) return flat.states()[moment].dtype;
    return spec.trainable ? at::kFloat : flat.weight_dtype();  // which has no master
  };
  std::vector<std::vector<size_t>> index;  // [unit][parameter] in the state
  for (const auto& unit : flat.units()) {
    index.emplace_back();
    for (const auto& slot : unit.slots) {
      if (moments && !slot.param->spec().trainable) break;
      index.back().push_back(state.size());
      const auto& spec = slot.param->spec();
      state.push_back({prefix + spec.name, spec.shape, dtype_of(spec), {}, false, spec.trainable});
    }
  }
  const auto& layout = flat.layout();
  for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) {
    const auto [extent, turn] = of_bucket(bucket);
    at::Tensor values;
    for (const auto& piece : layout.pieces(bucket, extent)) {
      if (index[static_cast<size_t>(piece.unit)].empty()) continue;
      if (!values.defined()) values = flat.view(kind, bucket, moment);
      auto& tensor =
          state[index[static_cast<size_t>(piece.unit)][static_cast<size_t>(piece.param)]];
      const int64_t at = piece.place - flat.kept(kind, bucket).begin;
      auto part = values.narrow(0, at, piece.end() - piece.place);
      if (piece.rows > 1) {
        part = part.as_strided({piece.rows, piece.length}, {piece.local_stride, 1});
      }
      add_dealt(tensor.pieces,
                {.begin = piece.begin,
                 .values = part,
                 .owned = piece.owned,
                 .offloaded = layout.offloaded(layout.held_as(kind, bucket)),
                 .stride = piece.global_stride},
                turn);
    }
  }
}

/// Appends the rank's own parts, as add() does; the state replicas share the writing.
void add_own(State& state, const FlatBuffers& flat, Kind kind, size_t moment,
             const comm::Group& replicas) {
  const Turn turn{replicas.rank(), replicas.size()};
  add(state, flat, kind, moment, [&](int64_t bucket) { return Elements{flat.part(bucket), turn}; });
}

/// Appends all that the rank keeps, as add() does; the ranks of the host share the writing.
void add_kept(State& state, const FlatBuffers& flat, Kind kind, size_t moment,
              const HostShare& share) {
  const auto& layout = flat.layout();
  add(state, flat, kind, moment, [&](int64_t bucket) {
    const bool sharded = layout.is_sharded(layout.held_as(kind, bucket), bucket);
    const auto& whole = layout.of_experts(bucket) ? share.experts : share.whole;
    return Elements{flat.kept(kind, bucket), sharded ? share.part : whole};
  });
}

void add_buffer(State& state, const nn::NamedTensor& buffer, bool owned) {
  const auto& tensor = buffer.tensor;
  state.push_back({buffer.name, tensor.sizes().vec(), tensor.scalar_type(), {}, true});
  if (tensor.numel() > 0) state.back().pieces.push_back({0, tensor.detach().view({-1}), owned});
}

}  // namespace

StatePiece StatePiece::part(int64_t first, int64_t count) const {
  auto out = *this;
  out.begin += first * std::max<int64_t>(stride, 1);
  out.values = values.narrow(0, first, count);
  out.first_held += first;
  return out;
}

std::vector<StatePiece> StatePiece::parts(int64_t bytes) const {
  const int64_t count = values.size(0);  // of elements, or rows
  const int64_t width = (stride == 0 ? 1 : length()) * static_cast<int64_t>(values.element_size());
  const int64_t some = std::max<int64_t>(1, bytes / std::max<int64_t>(1, width));
  std::vector<StatePiece> out;
  for (int64_t at = 0; at < count; at += some) out.push_back(part(at, std::min(some, count - at)));
  return out;
}

at::Tensor StatePiece::on_host() const {
  return held ? held->take(first_held, rows()) : comm::download(values).contiguous();
}

State weights_of(const FlatBuffers& flat, const std::vector<nn::NamedTensor>& buffers,
                 const comm::Groups& groups) {
  const bool main = groups.world.rank() == 0;
  State state;
  for (const auto& buffer : buffers) add_buffer(state, buffer, main);
  add_own(state, flat, Kind::Masters, 0, groups.replicas);
  return state;
}

State moments_of(const FlatBuffers& flat, const comm::Groups& groups) {
  State state;
  for (size_t k = 0; k < flat.states().size(); ++k) {
    add_own(state, flat, Kind::Moments, k, groups.replicas);
  }
  return state;
}

State weights_of_host(const FlatBuffers& flat, const std::vector<nn::NamedTensor>& buffers,
                      const HostShare& share) {
  State state;
  for (const auto& buffer : buffers) add_buffer(state, buffer, share.first);
  add_kept(state, flat, Kind::Masters, 0, share);
  return state;
}

State moments_of_host(const FlatBuffers& flat, const HostShare& share) {
  State state;
  for (size_t k = 0; k < flat.states().size(); ++k) {
    add_kept(state, flat, Kind::Moments, k, share);
  }
  return state;
}

State merged(std::vector<State> states) {
  State out = std::move(states.at(0));
  for (size_t s = 1; s < states.size(); ++s) {
    for (size_t t = 0; t < out.size(); ++t) {
      auto& more = states[s][t].pieces;
      out[t].pieces.insert(out[t].pieces.end(), more.begin(), more.end());
    }
  }
  return out;
}

}  // namespace convoy::parallel
