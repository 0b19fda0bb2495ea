#include "convoy/parallel/layout.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "convoy/parallel/offload/place.h"
#include "convoy/parallel/zero/sharded_state.h"

namespace convoy::parallel {

namespace {

int64_t rounded_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void add_once(std::vector<int64_t>& to, int64_t value) {
  if (std::find(to.begin(), to.end(), value) == to.end()) to.push_back(value);
}

int64_t elements_of(const ParamShape& param, const TensorPlace& tensor) {
  return local_elements(param.shape, param.cut, tensor);
}

/// Places the parameters with weight decay, or those without, from `offset` on; returns their end.
int64_t place(UnitPlace& unit, const std::vector<ParamShape>& params, const TensorPlace& tensor,
              bool decays, int64_t offset) {
  for (size_t p = 0; p < params.size(); ++p) {
    if (params[p].decays != decays) continue;
    unit.params[p] = {offset, offset + elements_of(params[p], tensor)};
    offset = rounded_up(unit.params[p].end, kAlignment);
  }
  return offset;
}

/// Parts of `all` that are not `taken`, in order.
std::vector<Extent> without(const Extent& all, std::vector<Extent> taken) {
  std::sort(taken.begin(), taken.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::vector<Extent> out;
  int64_t at = all.begin;
  for (const auto& extent : taken) {
    const Extent before{at, std::min(extent.begin, all.end)};
    if (before.begin < before.end) out.push_back(before);
    at = std::max(at, extent.end);
  }
  if (at < all.end) out.push_back({at, all.end});
  return out;
}

/// Units by bucket, in backward order. Frozen units and those of experts have buckets of their own,
/// and so have each unit that several stages hold and each virtual stage, which are not computed
/// one after the other.
std::vector<std::vector<int64_t>> make_buckets(const ModelTable& table,
                                               const std::vector<std::vector<int>>& stages_of,
                                               const VirtualStages& virtual_stages,
                                               const std::vector<bool>& of_experts,
                                               int64_t bucket_bytes) {
  std::vector<std::vector<int64_t>> buckets;
  BucketCutter cutter(bucket_bytes);
  std::tuple<bool, bool, int64_t, int64_t> kind{false, false, -1, -1};
  for (int64_t unit : table.backward_order()) {
    const bool tied = stages_of[static_cast<size_t>(unit)].size() > 1;
    const int64_t reader = table.last_reader_in_backward(unit);
    const auto stretch = std::find_if(virtual_stages.begin(), virtual_stages.end(),
                                      [&](const auto& blocks) { return reader <= blocks.second; });
    const auto before =
        std::exchange(kind, {table.is_frozen(unit), of_experts[static_cast<size_t>(unit)],
                             tied ? unit : -1, stretch - virtual_stages.begin()});
    const bool other_kind = kind != before;
    if (cutter.begins(table.unit_bytes[static_cast<size_t>(unit)], other_kind)) {
      buckets.emplace_back();
    }
    buckets.back().push_back(unit);
  }
  return buckets;
}

}  // namespace

int64_t ModelTable::last_reader_in_backward(int64_t unit) const {
  for (int64_t block = 0; block < num_blocks(); ++block) {
    const auto& units = units_of_block[static_cast<size_t>(block)];
    if (std::find(units.begin(), units.end(), unit) != units.end()) return block;
  }
  return -1;
}

std::vector<std::vector<int64_t>> ModelTable::units_finished_by_block(bool of_frozen) const {
  std::vector<int64_t> reader(unit_bytes.size(), -1);  // the lowest
  for (int64_t block = num_blocks() - 1; block >= 0; --block) {
    for (int64_t unit : units_of_block[static_cast<size_t>(block)]) {
      reader[static_cast<size_t>(unit)] = block;
    }
  }
  std::vector<std::vector<int64_t>> finished(units_of_block.size());
  for (int64_t unit = 0; unit < num_units(); ++unit) {
    const int64_t block = reader[static_cast<size_t>(unit)];
    if (block < 0 || is_frozen(unit) != of_frozen) continue;
    finished[static_cast<size_t>(block)].push_back(unit);
  }
  return finished;
}

std::vector<int64_t> ModelTable::backward_order() const {
  std::vector<int64_t> order;
  for (const bool of_frozen : {false, true}) {
    const auto finished = units_finished_by_block(of_frozen);
    for (auto units = finished.rbegin(); units != finished.rend(); ++units) {
      order.insert(order.end(), units->begin(), units->end());
    }
  }
  return order;
}

Layout::Layout(ModelTable table, Shapes shapes, const LayoutOptions& options)
    : Layout(std::move(table), std::make_shared<const Shapes>(std::move(shapes)), options) {}

Layout::Layout(ModelTable table, std::shared_ptr<const Shapes> shapes, const LayoutOptions& options)
    : table_(std::move(table)), options_(options), params_(std::move(shapes)) {
  const auto& params = *params_;
  all_units_ = table_.units_of_block;
  stage_of_.assign(all_units_.size(), options.stages.empty() ? options.pipeline_stage : -1);
  for (size_t stage = 0; stage < options.stages.size(); ++stage) {
    for (const int64_t block : options.stages[stage]) {
      stage_of_.at(static_cast<size_t>(block)) = static_cast<int>(stage);
    }
  }
  std::vector<std::set<int>> holders(params.size());
  for (size_t block = 0; block < all_units_.size(); ++block) {
    for (const int64_t unit : all_units_[block]) {
      holders[static_cast<size_t>(unit)].insert(stage_of_[block]);
    }
    if (!holds(static_cast<int64_t>(block))) table_.units_of_block[block].clear();
  }
  for (const auto& stages : holders) stages_of_.emplace_back(stages.begin(), stages.end());
  for (size_t unit = 0; options.by_rows() && unit < params.size(); ++unit) {
    const auto index = static_cast<int64_t>(unit);
    if (!params[unit].front().row_reads || table_.is_frozen(index)) continue;
    row_units_.push_back(index);
    for (auto& units : table_.units_of_block) std::erase(units, index);
  }
  table_.unit_bytes.assign(params.size(), 0);
  std::vector<bool> of_experts(params.size());
  for (size_t unit = 0; unit < params.size(); ++unit) {
    of_experts[unit] = is_dealt(params[unit].front().cut, options.tensor);
    for (const auto& param : params[unit]) {
      table_.unit_bytes[unit] += rounded_up(elements_of(param, options.tensor), kAlignment) *
                                 static_cast<int64_t>(sizeof(float));
    }
  }
  units_.resize(params.size());
  bucket_of_.assign(params.size(), -1);
  int64_t offset = 0;
  for (auto& members : make_buckets(table_, stages_of_, virtual_stages(), of_experts,
                                    options.parallelism.bucket_bytes)) {
    num_trained_ += !table_.is_frozen(members.front());
    const bool experts = of_experts[static_cast<size_t>(members.front())];
    Bucket bucket{std::move(members), {offset, offset}, experts};
    for (const int64_t index : bucket.units) {
      const auto u = static_cast<size_t>(index);
      auto& unit = units_[u];
      unit.params.resize(params[u].size());
      unit.all.begin = offset;
      unit.decay_end = place(unit, params[u], options.tensor, true, offset);
      unit.all.end = offset = place(unit, params[u], options.tensor, false, unit.decay_end);
      bucket_of_[u] = num_buckets();
    }
    const int parts = num_parts(experts);
    offset = bucket.all.begin + rounded_up(offset - bucket.all.begin, kAlignment * parts);
    bucket.all.end = offset;
    buckets_.push_back(std::move(bucket));
    const int64_t all = buckets_.back().all.length(), part = all / parts;
    parts_before_.push_back(parts_before_.back() + part);
    weights_before_.push_back(weights_before_.back() +
                              (stays_whole(num_buckets() - 1) ? all : part));
  }
  buckets_of_block_.resize(table_.units_of_block.size());
  buckets_of_backward_.resize(table_.units_of_block.size());
  for (size_t block = 0; block < table_.units_of_block.size(); ++block) {
    for (const int64_t unit : table_.units_of_block[block]) {
      add_once(buckets_of_block_[block], bucket_of(unit));
      if (table_.read_in_backward(unit)) add_once(buckets_of_backward_[block], bucket_of(unit));
    }
  }
}

bool Layout::is_by_rows(int64_t unit) const {
  return std::find(row_units_.begin(), row_units_.end(), unit) != row_units_.end();
}

int64_t Layout::first_reader_of_rows(int64_t unit) const {
  for (size_t block = 0; block < all_units_.size(); ++block) {
    const auto& units = all_units_[block];
    if (std::find(units.begin(), units.end(), unit) != units.end())
      return static_cast<int64_t>(block);
  }
  return -1;
}

int64_t Layout::kept_rows(int64_t unit, int rank) const {
  return (row_table(unit).shape.front() - rank + options_.num_parts - 1) / options_.num_parts;
}

VirtualStages Layout::virtual_stages(int stage) const {
  VirtualStages out;
  for (int64_t block = 0; block < table_.num_blocks(); ++block) {
    if (stage_of(block) != stage) continue;
    if (out.empty() || out.back().second + 1 < block) out.emplace_back(block, block);
    out.back().second = block;
  }
  return out;
}

Layout Layout::of_stage(int stage) const {
  auto table = table_;
  table.units_of_block = all_units_;
  auto options = options_;
  options.pipeline_stage = stage;
  return {std::move(table), params_, options};
}

bool Layout::offloaded(Kind kind) const {
  const bool is_state = !are_weights(kind);
  return (options_.trains || !is_state) &&
         place_of(kind, options_.parallelism.offload, options_.low_precision) != Place::Device;
}

bool Layout::is_sharded(Kind kind) const {
  if (options_.shares_weights) return false;
  if (options_.num_parts == 1 && (kind == Kind::Moments || !offloaded(kind))) return false;
  return is_sharded_at(options_.parallelism.stage_of_zero(), kind, options_.low_precision);
}

Extent Layout::part(int64_t bucket, int rank) const {
  const auto& all = buckets_[static_cast<size_t>(bucket)].all;
  const int64_t length = all.length() / num_parts(bucket);
  if (of_experts(bucket)) {  // number of the rank among those with the same experts
    const int contexts = options_.num_context_ranks;
    rank = rank / (options_.tensor.num_expert_ranks * contexts) * contexts + rank % contexts;
  }
  return {all.begin + rank * length, all.begin + (rank + 1) * length};
}

int Layout::num_parts(bool of_experts) const {
  return of_experts ? options_.num_parts / options_.tensor.num_expert_ranks : options_.num_parts;
}

bool Layout::stays_whole(int64_t bucket) const {
  if (offloaded(Kind::Weights)) return false;
  if (of_experts(bucket) && num_parts(bucket) == 1) return true;  // nobody else has them
  const auto length = buckets_[static_cast<size_t>(bucket)].all.length();
  return length * static_cast<int64_t>(sizeof(float)) < options_.parallelism.keep_bytes;
}

/// Returns where a bucket begins in a rank's buffer; of num_buckets(): where that ends.
int64_t Layout::begin_in(Kind kind, int64_t bucket) const {
  const auto b = static_cast<size_t>(bucket);
  const int64_t begin = bucket == num_buckets() ? num_elements() : buckets_[b].all.begin;
  if (!is_sharded(kind)) return begin;
  return are_weights(kind) ? weights_before_[b] : parts_before_[b];
}

int64_t Layout::place_in(Kind kind, int64_t bucket, int rank, int64_t place) const {
  return begin_in(kind, bucket) + place - kept(kind, bucket, rank).begin;
}

std::vector<Extent> Layout::summed_over_tensor(int64_t unit) const {
  std::vector<Extent> out;
  if (options_.tensor.num_ranks == 1) return out;
  if (!holds_unit(unit) || table_.is_frozen(unit)) return out;
  const auto u = static_cast<size_t>(unit);
  for (size_t p = 0; p < shapes()[u].size(); ++p) {
    const auto& cut = shapes()[u][p].cut;
    const bool in_parts = options_.parallelism.sequence_parallel || cut.partial_grad;
    if (cut.dim < 0 && in_parts) out.push_back(units_[u].params[p]);
  }
  return out;
}

std::vector<Extent> Layout::gaps(int64_t bucket) const {
  const auto& place = buckets_[static_cast<size_t>(bucket)];
  std::vector<Extent> params;
  for (const int64_t unit : place.units) {
    const auto& all = units_[static_cast<size_t>(unit)].params;
    params.insert(params.end(), all.begin(), all.end());
  }
  return without(place.all, std::move(params));
}

std::vector<Extent> Layout::gaps_of_unit(int64_t unit) const {
  const auto& place = units_[static_cast<size_t>(unit)];
  return without(place.all, place.params);
}

std::vector<Piece> Layout::pieces(int rank) const {
  std::vector<Piece> out;
  for (int64_t bucket = 0; bucket < num_buckets(); ++bucket) {
    const auto own = pieces(bucket, part(bucket, rank));
    out.insert(out.end(), own.begin(), own.end());
  }
  return out;
}

std::vector<Piece> Layout::pieces(int64_t bucket, const Extent& extent) const {
  std::vector<Piece> out;
  for (const int64_t unit : buckets_[static_cast<size_t>(bucket)].units) {
    const auto& params = units_[static_cast<size_t>(unit)].params;
    for (size_t p = 0; p < params.size(); ++p) {
      const int64_t begin = std::max(extent.begin, params[p].begin);
      const int64_t end = std::min(extent.end, params[p].end);
      if (begin >= end) continue;
      const auto& param = shapes()[static_cast<size_t>(unit)][p];
      for (const auto& run :
           runs(param.shape, param.cut, options_.tensor, begin - params[p].begin, end - begin)) {
        out.push_back({unit, static_cast<int64_t>(p), run.global, params[p].begin + run.local,
                       run.length, run.owned && owns(unit, p), run.rows, run.global_stride,
                       run.local_stride});
      }
    }
  }
  return out;
}

/// Whether this rank owns a parameter: the first of several stages or tensor ranks that hold all of
/// it.
bool Layout::owns(int64_t unit, size_t param) const {
  const auto& cut = shapes()[static_cast<size_t>(unit)][param].cut;
  return stages_of(unit).front() == options_.pipeline_stage &&
         (cut.dim >= 0 || options_.tensor.rank == 0);
}

std::vector<Extent> Layout::counted(int64_t bucket, int rank) const {
  std::vector<Extent> others;
  for (const int64_t unit : buckets_[static_cast<size_t>(bucket)].units) {
    const auto& params = units_[static_cast<size_t>(unit)].params;
    for (size_t p = 0; p < params.size(); ++p) {
      if (!owns(unit, p)) {
        others.push_back(params[p]);
        continue;
      }
      const auto& param = shapes()[static_cast<size_t>(unit)][p];
      if (!overlaps(param.shape, param.cut, options_.tensor.num_ranks)) continue;
      for (const auto& run : runs(param.shape, param.cut, options_.tensor, 0, params[p].length())) {
        for (int64_t row = 0; row < run.rows && !run.owned; ++row) {
          const int64_t begin = params[p].begin + run.local + row * run.local_stride;
          others.push_back({begin, begin + run.length});
        }
      }
    }
  }
  return without(part(bucket, rank), std::move(others));
}

}  // namespace convoy::parallel
