#include "convoy/parallel/arena.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/optim/adamw.h"

namespace convoy::parallel {

using schedule::Kind;

namespace {

bool has_leaves(const nn::BlockList& blocks) {
  return std::any_of(blocks.begin(), blocks.end(), [](const auto& block) {
    return std::any_of(block->params().begin(), block->params().end(),
                       [](const auto& param) { return param->leaf().defined(); });
  });
}

}  // namespace

Arena::Arena(const nn::BlockList& blocks, ArenaOptions options, const Arena* share_weights_with)
    : options_(std::move(options)) {
  // A user's modules keep fp32 weights and cast by themselves.
  options_.layout.low_precision = options_.compute_dtype != at::kFloat && !has_leaves(blocks);
  const auto& offload = options_.offload;
  options_.layout.offload_optimizer = options_.trains && offload.optimizer != Place::Device;
  options_.layout.offload_gradients = options_.trains && offload.gradients != Place::Device;
  options_.layout.offload_parameters = offload.parameters != Place::Device;
  lay_out(group_params(blocks));
  allocate(share_weights_with);
}

schedule::ModelTable Arena::group_params(const nn::BlockList& blocks) {
  std::map<nn::Param*, std::vector<int64_t>> readers;
  std::map<std::string, nn::Param*> by_name;
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const auto& param : blocks[b]->params()) {
      auto& of_param = readers[param.get()];
      if (of_param.empty() || of_param.back() != static_cast<int64_t>(b)) {
        of_param.push_back(static_cast<int64_t>(b));
      }
      auto [it, fresh] = by_name.emplace(param->spec().name, param.get());
      if (!fresh && it->second != param.get()) {
        fail<UsageError>("parallel", "two parameters are named '{}'; expected unique names",
                         param->spec().name);
      }
    }
  }
  schedule::ModelTable table;
  std::map<nn::Param*, int64_t> seen;
  table.units_of_block.resize(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    std::map<bool, int64_t> own;  // trained or not
    for (const auto& param : blocks[b]->params()) {
      const bool frozen = !param->spec().trainable;
      bool fresh = seen.count(param.get()) == 0;
      bool tied = readers[param.get()].size() > 1;
      if (fresh && (tied || !own.contains(frozen))) {
        if (!tied) own[frozen] = static_cast<int64_t>(units_.size());
        units_.push_back({tied ? param->spec().name : blocks[b]->name(), {}});
        table.frozen.push_back(frozen);
      }
      if (fresh) {
        seen[param.get()] = tied ? static_cast<int64_t>(units_.size()) - 1 : own[frozen];
        units_[static_cast<size_t>(seen[param.get()])].slots.push_back({param});
      }
      auto& units = table.units_of_block[b];
      if (std::find(units.begin(), units.end(), seen[param.get()]) == units.end()) {
        units.push_back(seen[param.get()]);
      }
    }
  }
  for (const auto& unit : units_) {
    table.idle_in_backward.push_back(
        std::none_of(unit.slots.begin(), unit.slots.end(),
                     [](const Slot& slot) { return slot.param->spec().read_in_backward; }));
  }
  return table;
}

void Arena::lay_out(schedule::ModelTable table) {
  std::vector<std::vector<schedule::ParamShape>> params;
  for (auto& unit : units_) {
    std::stable_partition(unit.slots.begin(), unit.slots.end(),
                          [](const Slot& slot) { return slot.param->spec().decay; });
    params.emplace_back();
    for (const auto& slot : unit.slots) {
      const auto& spec = slot.param->spec();
      slot.param->cut(options_.layout.tensor);
      params.back().push_back({spec.shape, spec.decay, spec.cut});
    }
  }
  layout_ = schedule::Layout(std::move(table), std::move(params), options_.layout);
  for (size_t u = 0; u < units_.size(); ++u) {
    if (!layout_.holds_unit(static_cast<int64_t>(u))) continue;
    for (size_t p = 0; p < units_[u].slots.size(); ++p) {
      const auto& place = layout_.units()[u].params[p];
      units_[u].slots[p].begin = place.begin;
      units_[u].slots[p].length = place.length();
    }
  }
}

void Arena::allocate(const Arena* from) {
  const auto compute = fp32().dtype(weight_dtype());
  const bool low = options_.layout.low_precision;
  const auto zeros = [&](Kind kind, const at::TensorOptions& of) {
    return offloaded(kind) ? at::Tensor() : at::zeros({layout_.kept(kind)}, of);
  };
  if (options_.trains) grads_ = zeros(Kind::Gradients, fp32());
  if (from != nullptr) {
    internal_check(from->layout_.num_elements() == layout_.num_elements(), "parallel",
                   "replicas of different sizes");
    weights_ = from->weights_;
    masters_ = from->masters_;
    moments_ = from->moments_;
  } else {
    masters_ = zeros(Kind::Masters, fp32());
    weights_ = low ? zeros(Kind::Weights, compute) : masters_;
    for (size_t k = 0; options_.trains && k < optim::kMoments.size(); ++k) {
      moments_.push_back(zeros(Kind::Moments, fp32()));
    }
  }
  if (options_.offload.any()) {
    offload_ = std::make_unique<Offload>(layout_, options_.offload, options_.device,
                                         options_.compute_dtype);
  }
  pool_ = Pool(compute);
  attached_.resize(layout_.buckets().size());
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    const auto& all = layout_.buckets()[static_cast<size_t>(bucket)].all;
    if (layout_.in_slices(Kind::Weights, bucket)) {
      bucket_weights_.push_back(at::empty({all.length()}, compute));
      detach(bucket);
    } else {
      bucket_weights_.push_back(weights(bucket, all));
    }
  }
}

/// Masters of fp32 are the weights.
Kind Arena::stored_as(Kind kind) const {
  return kind == Kind::Masters && !options_.layout.low_precision ? Kind::Weights : kind;
}

void Arena::change(int64_t bucket, std::initializer_list<Kind> kinds,
                   const std::function<void()>& work) {
  std::set<Kind> absent;
  for (const Kind kind : kinds) {
    if (offloaded(kind)) absent.insert(stored_as(kind));
  }
  for (const Kind kind : absent) offload_->fetch(kind, bucket);
  work();
  for (const Kind kind : absent) offload_->store(kind, bucket);
}

void Arena::attach(int64_t bucket) {
  const auto b = static_cast<size_t>(bucket);
  internal_check(!attached_[b].defined(), "parallel", "bucket {} is there already", bucket);
  auto memory = attached_[b] = pool_.take(layout_.buckets()[b].all.length());
  bucket_weights_[b].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(memory.data_ptr(), memory.device()));
}

void Arena::detach(int64_t bucket) {
  const auto b = static_cast<size_t>(bucket);
  bucket_weights_[b].storage().unsafeGetStorageImpl()->set_data_ptr_noswap(
      at::DataPtr(nullptr, bucket_weights_[b].device()));
  if (attached_[b].defined()) pool_.give(std::exchange(attached_[b], {}));
}

void Arena::bind() {
  take_leaves();
  for (size_t u = 0; u < units_.size(); ++u) {
    const int64_t bucket = layout_.bucket_of(static_cast<int64_t>(u));
    if (bucket < 0) continue;
    const auto& all = layout_.buckets()[static_cast<size_t>(bucket)].all;
    for (const auto& slot : units_[u].slots) {
      slot.param->bind_value(view(bucket_weights(bucket), slot, all.begin));
    }
  }
}

/// The values that a user's modules have.
void Arena::take_leaves() {
  at::NoGradGuard no_grad;
  for (const auto& piece : layout_.pieces(options_.rank)) {
    const auto& slot =
        units_[static_cast<size_t>(piece.unit)].slots[static_cast<size_t>(piece.param)];
    if (!slot.param->leaf().defined()) continue;
    const auto values = slot.param->leaf().detach().reshape({-1});
    const int64_t bucket = layout_.bucket_of(piece.unit);
    change(bucket, {Kind::Masters}, [&] {
      masters(bucket, {piece.place, piece.place + piece.length})
          .copy_(values.narrow(0, piece.begin, piece.length));
    });
  }
}

at::Tensor Arena::narrow(Kind kind, int64_t bucket, const schedule::Extent& extent,
                         size_t moment) const {
  if (offloaded(kind)) {
    const auto whole = kept(kind, bucket);
    const auto values = offload_->here(stored_as(kind), bucket);
    const auto before = static_cast<int64_t>(moment) * whole.length();
    return values.narrow(0, before + extent.begin - whole.begin, extent.length());
  }
  const auto& flat = kind == Kind::Weights     ? weights_
                     : kind == Kind::Masters   ? masters_
                     : kind == Kind::Gradients ? grads_
                                               : moments_.at(moment);
  return flat.narrow(0, layout_.place_in(kind, bucket, options_.rank, extent.begin),
                     extent.length());
}

at::Tensor Arena::view(Kind kind, int64_t bucket, size_t moment) const {
  const auto whole = kept(kind, bucket);
  if (!offloaded(kind)) return narrow(kind, bucket, whole, moment);
  return offload_->view(stored_as(kind), bucket)
      .narrow(0, static_cast<int64_t>(moment) * whole.length(), whole.length());
}

at::Tensor Arena::view(const at::Tensor& flat, const Slot& slot, int64_t begin) {
  return flat.narrow(0, slot.begin - begin, slot.length).view(slot.param->shape());
}

void Arena::bind_grads(int64_t unit, const at::Tensor& memory, int64_t begin,
                       const std::vector<bool>& written) {
  const auto& slots = units_[static_cast<size_t>(unit)].slots;
  for (size_t s = 0; s < slots.size(); ++s) {
    slots[s].param->bind_grad(view(memory, slots[s], begin), !written.empty() && written[s]);
  }
}

void Arena::publish(int64_t bucket, const schedule::Extent& extent) {
  if (!options_.layout.low_precision) return;
  at::NoGradGuard no_grad;
  weights(bucket, extent).copy_(masters(bucket, extent));
}

void Arena::publish_weights() {
  if (!options_.layout.low_precision) return;
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    change(bucket, {Kind::Masters, Kind::Weights},
           [&] { publish(bucket, kept(Kind::Masters, bucket)); });
  }
}

void Arena::fill(double value) {
  at::NoGradGuard no_grad;
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    change(bucket, {Kind::Masters},
           [&] { masters(bucket, kept(Kind::Masters, bucket)).fill_(value); });
  }
  publish_weights();
}

std::vector<Slot> Arena::all_slots() const {
  std::vector<Slot> out;
  for (const auto& unit : units_) out.insert(out.end(), unit.slots.begin(), unit.slots.end());
  return out;
}

at::Tensor Arena::value_of(const std::string& name) {
  for (const auto& slot : all_slots()) {
    if (slot.param->spec().name != name || slot.length == 0) continue;
    return view(masters_, slot);
  }
  return {};
}

int64_t Arena::num_parameters() const {
  int64_t count = 0;
  for (const auto& slot : all_slots()) count += schedule::num_elements(slot.param->spec().shape);
  return count;
}

int64_t Arena::num_trainable_parameters() const {
  int64_t count = 0;
  for (const auto& slot : all_slots()) {
    const auto& spec = slot.param->spec();
    count += spec.trainable ? schedule::num_elements(spec.shape) : 0;
  }
  return count;
}

}  // namespace convoy::parallel
