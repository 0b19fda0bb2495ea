#include "convoy/parallel/run/replicas_check.h"

#include <ATen/ATen.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/comm/device.h"

namespace convoy::parallel {

namespace {

/// Values that several ranks hold: a parameter's of a kind, or one granule of those that some
/// tensor ranks share.
struct Entry {
  Kind kind = Kind::Weights;
  size_t moment = 0;
  size_t unit = 0, param = 0;
  int64_t granule = -1;
  // Values of this rank:
  bool here = false;
  bool is_sharded = false;
  uint64_t sum = 0;
};

/// Ranks among which entries are compared, and their name in messages.
struct Among {
  const comm::Group& group;
  AxisSet axes;
  const char* who;
};

class Entries {
 public:
  Entries(const FlatBuffers& flat, const comm::Groups& groups) : flat_(flat), groups_(groups) {
    tensor_ = flat.layout().options().tensor;
    add_kind(Kind::Weights, 0);
    if (flat.layout().options().low_precision) add_kind(Kind::Masters, 0);
    for (size_t k = 0; k < flat.states().size(); ++k) add_kind(Kind::Moments, k);
  }

  std::vector<Entry> all;

  bool is_common(const Entry& entry) const {
    return param_of(entry).spec().cut.dim < 0 || entry.granule >= 0;
  }
  bool of_experts(const Entry& entry) const {
    const int64_t bucket = flat_.layout().bucket_of(static_cast<int64_t>(entry.unit));
    return bucket >= 0 && flat_.layout().of_experts(bucket);
  }
  bool is_tied(const Entry& entry) const {
    return flat_.layout().is_tied(static_cast<int64_t>(entry.unit));
  }

  /// Adds up the checksums of shards to those of the parameters.
  void join_shards() {
    auto sums = at::zeros({static_cast<int64_t>(all.size())}, at::kLong);
    auto* sum = sums.data_ptr<int64_t>();
    for (size_t e = 0; e < all.size(); ++e) {
      if (all[e].is_sharded) sum[e] = static_cast<int64_t>(all[e].sum);
    }
    groups_.shard.all_reduce(sums, comm::ReduceOp::Sum, "sums of shards");
    for (size_t e = 0; e < all.size(); ++e) {
      if (all[e].is_sharded) all[e].sum = static_cast<uint64_t>(sum[e]);
    }
  }

  std::string to_text(const Entry& entry) const {
    const std::string what = entry.kind == Kind::Weights   ? "the weights"
                             : entry.kind == Kind::Masters ? "the fp32 masters"
                                                           : flat_.states()[entry.moment].name;
    const auto where = entry.granule < 0 ? "" : fmt::format("head {} of ", entry.granule);
    return fmt::format("{} of {}{}", what, where, param_of(entry).spec().name);
  }

 private:
  const nn::Param& param_of(const Entry& entry) const {
    return *flat_.units()[entry.unit].slots[entry.param].param;
  }

  void add_kind(Kind kind, size_t moment) {
    std::map<std::pair<size_t, size_t>, size_t> first;  // [unit, parameter] its first entry
    for (size_t u = 0; u < flat_.units().size(); ++u) {
      const auto& slots = flat_.units()[u].slots;
      for (size_t p = 0; p < slots.size(); ++p) {
        const auto& spec = slots[p].param->spec();
        if (kind != Kind::Weights && !spec.trainable) continue;
        first[{u, p}] = all.size();
        add_entries(kind, moment, u, p);
      }
    }
    const auto& layout = flat_.layout();
    for (int64_t bucket = 0; bucket < layout.num_buckets(kind); ++bucket) {
      const auto kept = flat_.kept(kind, bucket);
      const auto values = comm::download(flat_.view(kind, bucket, moment)).contiguous();
      for (const auto& piece : layout.pieces(bucket, kept)) {
        const auto u = static_cast<size_t>(piece.unit), p = static_cast<size_t>(piece.param);
        each_row(piece, [&](const Piece& row) {
          add_up(first.at({u, p}), row, values, row.place - kept.begin);
        });
      }
    }
  }

  /// Adds one entry for the parameter, or for each granule.
  void add_entries(Kind kind, size_t moment, size_t u, size_t p) {
    const auto& layout = flat_.layout();
    const auto& spec = flat_.units()[u].slots[p].param->spec();
    Entry entry{.kind = kind, .moment = moment, .unit = u, .param = p};
    entry.here = layout.holds_unit(static_cast<int64_t>(u));
    entry.is_sharded =
        entry.here && layout.is_sharded(kind, layout.bucket_of(static_cast<int64_t>(u)));
    if (!overlaps(spec.shape, spec.cut, tensor_.num_ranks)) {
      all.push_back(entry);
      return;
    }
    const auto dim = static_cast<size_t>(spec.cut.dim);
    const bool held = entry.here;
    for (entry.granule = 0; entry.granule < spec.shape[dim] / spec.cut.granule; ++entry.granule) {
      entry.here = false;
      for (const auto& box : boxes(spec.shape, spec.cut, tensor_)) {
        const int64_t at = entry.granule * spec.cut.granule - box.begin[dim];
        entry.here = entry.here || (held && at >= 0 && at < box.size[dim]);
      }
      all.push_back(entry);
    }
  }

  void add_up(size_t first, const Piece& row, const at::Tensor& values, int64_t at) {
    const auto width = values.element_size();
    const auto* from =
        static_cast<const std::byte*>(values.const_data_ptr()) + static_cast<size_t>(at) * width;
    const auto sum_of = [&](int64_t begin, int64_t length) {
      return checksum(from + static_cast<size_t>(begin) * width, static_cast<size_t>(length), width,
                      static_cast<uint64_t>(row.begin + begin));
    };
    if (all[first].granule < 0) {
      all[first].sum += sum_of(0, row.length);
      return;
    }
    const auto& spec = param_of(all[first]).spec();
    int64_t granule = spec.cut.granule;  // in elements
    for (auto d = static_cast<size_t>(spec.cut.dim) + 1; d < spec.shape.size(); ++d) {
      granule *= spec.shape[d];
    }
    const int64_t number = spec.shape[static_cast<size_t>(spec.cut.dim)] / spec.cut.granule;
    for (int64_t begin = 0; begin < row.length;) {
      const int64_t index = row.begin + begin;
      const int64_t some = std::min(row.length - begin, granule - index % granule);
      all[first + static_cast<size_t>(index / granule % number)].sum += sum_of(begin, some);
      begin += some;
    }
  }

  const FlatBuffers& flat_;
  const comm::Groups& groups_;
  TensorPlace tensor_;
};

struct Difference {
  int64_t entry = 0, one = 0, other = 0;  ///< ranks of the job
};

/// First entry that `concerns` selects and two ranks hold differently.
template <class Concerns>
std::optional<Difference> compare(const std::vector<Entry>& entries, const Among& among,
                                  const Mesh& mesh, const Concerns& concerns) {
  if (among.group.size() == 1) return std::nullopt;
  const auto count = static_cast<int64_t>(entries.size());
  auto mine = at::zeros({2, count}, at::kLong);
  auto* here = mine.data_ptr<int64_t>();
  for (int64_t e = 0; e < count; ++e) {
    const auto& entry = entries[static_cast<size_t>(e)];
    if (!entry.here || !concerns(entry)) continue;
    here[e] = 1;
    here[count + e] = static_cast<int64_t>(entry.sum);
  }
  const auto told = among.group.all_gather(mine, fmt::format("sums of {}", among.who));
  const auto* all = told.const_data_ptr<int64_t>();
  const auto ranks = mesh.ranks_along(among.axes);
  for (int64_t e = 0; e < count; ++e) {
    std::optional<int> one;
    for (int r = 0; r < among.group.size(); ++r) {
      const auto* of_rank = all + 2 * count * r;
      if (of_rank[e] == 0) continue;
      if (!one) one = r;
      if (of_rank[count + e] == all[2 * count * *one + count + e]) continue;
      return Difference{e, ranks[static_cast<size_t>(*one)], ranks[static_cast<size_t>(r)]};
    }
  }
  return std::nullopt;
}

/// Name of the ranks that sum gradients.
const char* gradient_ranks(const Mesh& mesh) {
  if (mesh.degree(Axis::Context) == 1) return "data-parallel ranks";
  return mesh.degree(kRows) == 1 ? "context ranks" : "data-parallel and context ranks";
}

}  // namespace

void check_replicas(const FlatBuffers& flat, const comm::Groups& groups, int64_t step) {
  if (groups.world.size() == 1 || flat.layout().options().shares_weights) return;
  Entries entries(flat, groups);
  const std::array<Among, 5> among{{
      {groups.gradients, kGradients, gradient_ranks(groups.mesh)},
      {groups.replicas, Axis::Replicate, "state replicas"},
      {groups.tensor, Axis::Tensor, "tensor ranks"},
      {groups.pipeline, Axis::Pipeline, "stages"},
      {groups.expert_gradients, kExpertGradients, "ranks with the same experts"},
  }};
  std::array<std::optional<Difference>, 5> found;
  const auto look = [&](size_t axis, const auto& concerns) {
    found.at(axis) = compare(entries.all, among.at(axis), groups.mesh, concerns);
  };
  look(0, [&](const Entry& e) { return !e.is_sharded && !entries.of_experts(e); });
  look(4, [&](const Entry& e) { return !e.is_sharded && entries.of_experts(e); });
  look(1, [](const Entry& entry) { return entry.is_sharded; });
  entries.join_shards();
  look(2, [&](const Entry& entry) { return entries.is_common(entry); });
  look(3, [&](const Entry& entry) { return entries.is_tied(entry); });
  // Ranks may have found different entries, or none: all agree on the one to report.
  auto mine = at::full({4}, -1, at::kLong);
  for (size_t axis = among.size(); axis-- > 0;) {
    if (!found.at(axis)) continue;
    const auto& d = *found.at(axis);
    mine.copy_(at::tensor({static_cast<int64_t>(axis), d.entry, d.one, d.other}, at::kLong));
  }
  const auto told = groups.world.all_gather(mine, "differences of replicas");
  for (size_t axis = 0; axis < among.size(); ++axis) {
    for (int rank = 0; rank < groups.world.size(); ++rank) {
      const auto* d = told[rank].const_data_ptr<int64_t>();
      if (d[0] != static_cast<int64_t>(axis)) continue;
      fail_on_all_ranks<NumericError>(
          "train",
          "after step {} ranks {} and {} differ in {}, which {} keep alike; try an earlier "
          "checkpoint, and where it happens again another machine: its memory or a link may be "
          "faulty",
          step, d[2], d[3], entries.to_text(entries.all[static_cast<size_t>(d[1])]),
          among.at(axis).who);
    }
  }
}

}  // namespace convoy::parallel
