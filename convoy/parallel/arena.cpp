#include "convoy/parallel/arena.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"

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
    : options_(options), owns_weights_(share_weights_with == nullptr) {
  // A user's modules keep fp32 weights and cast by themselves.
  options_.layout.low_precision = options.compute_dtype != at::kFloat && !has_leaves(blocks);
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
    int64_t own = -1;
    for (const auto& param : blocks[b]->params()) {
      bool fresh = seen.count(param.get()) == 0;
      if (!param->spec().trainable) {
        if (fresh) frozen_.push_back({param});
        seen[param.get()] = -1;
        continue;
      }
      bool tied = readers[param.get()].size() > 1;
      if (fresh && (tied || own < 0)) {
        units_.push_back({tied ? param->spec().name : blocks[b]->name(), {}});
        if (!tied) own = static_cast<int64_t>(units_.size()) - 1;
      }
      if (fresh) {
        seen[param.get()] = tied ? static_cast<int64_t>(units_.size()) - 1 : own;
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
  std::vector<std::vector<schedule::ParamSize>> params;
  for (auto& unit : units_) {
    std::stable_partition(unit.slots.begin(), unit.slots.end(),
                          [](const Slot& slot) { return slot.param->spec().decay; });
    params.emplace_back();
    for (const auto& slot : unit.slots) {
      params.back().push_back({slot.param->spec().num_elements(), slot.param->spec().decay});
    }
  }
  layout_ = schedule::Layout(std::move(table), params, options_.layout);
  for (size_t u = 0; u < units_.size(); ++u) {
    for (size_t p = 0; p < units_[u].slots.size(); ++p) {
      const auto& place = layout_.units()[u].params[p];
      units_[u].slots[p].begin = place.begin;
      units_[u].slots[p].length = place.length();
    }
  }
  int64_t offset = 0;
  for (auto& slot : frozen_) {
    slot.begin = offset;
    slot.length = slot.param->spec().num_elements();
    offset = (offset + slot.length + schedule::kAlignment - 1) / schedule::kAlignment *
             schedule::kAlignment;
  }
}

void Arena::allocate(const Arena* from) {
  const auto fp32 = at::TensorOptions().dtype(at::kFloat).device(options_.device);
  const auto compute = fp32.dtype(options_.compute_dtype);
  const bool low = options_.layout.low_precision;
  if (options_.trains) grads_ = at::zeros({layout_.kept(Kind::Gradients)}, fp32);
  if (from != nullptr) {
    internal_check(from->layout_.num_elements() == layout_.num_elements(), "parallel",
                   "replicas of different sizes");
    weights_ = from->weights_;
    masters_ = from->masters_;
    frozen_values_ = from->frozen_values_;
    first_moments_ = from->first_moments_;
    second_moments_ = from->second_moments_;
  } else {
    masters_ = at::zeros({layout_.kept(Kind::Masters)}, fp32);
    weights_ = low ? at::zeros({layout_.kept(Kind::Weights)}, compute) : masters_;
    const int64_t frozen = frozen_.empty() ? 0 : frozen_.back().begin + frozen_.back().length;
    frozen_values_ = at::zeros({frozen}, fp32);
    if (options_.trains) {
      first_moments_ = at::zeros({layout_.kept(Kind::Moments)}, fp32);
      second_moments_ = at::zeros_like(first_moments_);
    }
  }
  pool_ = Pool(weights_.options());
  attached_.resize(layout_.buckets().size());
  for (const auto& bucket : layout_.buckets()) {
    if (layout_.in_slices(Kind::Weights)) {
      bucket_weights_.push_back(at::empty({bucket.all.length()}, weights_.options()));
      detach(static_cast<int64_t>(bucket_weights_.size()) - 1);
    } else {
      bucket_weights_.push_back(weights_.narrow(0, bucket.all.begin, bucket.all.length()));
    }
  }
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
  if (owns_weights_) take_leaves();
  for (size_t u = 0; u < units_.size(); ++u) {
    const int64_t bucket = layout_.bucket_of(static_cast<int64_t>(u));
    const auto& all = layout_.buckets()[static_cast<size_t>(bucket)].all;
    for (const auto& slot : units_[u].slots) {
      slot.param->bind_value(view(bucket_weights(bucket), slot, all.begin));
    }
  }
  for (const auto& slot : frozen_) slot.param->bind_value(view(frozen_values_, slot));
}

/// The values that a user's modules have.
void Arena::take_leaves() {
  at::NoGradGuard no_grad;
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    const auto& place = layout_.buckets()[static_cast<size_t>(bucket)];
    const auto kept = layout_.in_slices(Kind::Masters) ? part(bucket) : place.all;
    for (const int64_t unit : place.units) {
      for (const auto& slot : units_[static_cast<size_t>(unit)].slots) {
        const int64_t begin = std::max(kept.begin, slot.begin);
        const int64_t end = std::min(kept.end, slot.begin + slot.length);
        if (!slot.param->leaf().defined() || begin >= end) continue;
        auto values = slot.param->leaf().detach().reshape({-1});
        masters(bucket, {begin, end}).copy_(values.narrow(0, begin - slot.begin, end - begin));
      }
    }
  }
  for (const auto& slot : frozen_) {
    if (slot.param->leaf().defined()) {
      view(frozen_values_, slot).copy_(slot.param->leaf().detach());
    }
  }
}

at::Tensor Arena::narrow(const at::Tensor& flat, Kind kind, int64_t bucket,
                         const schedule::Extent& extent) const {
  return flat.narrow(0, layout_.place_in(kind, bucket, options_.rank, extent.begin),
                     extent.length());
}

at::Tensor Arena::view(const at::Tensor& flat, const Slot& slot, int64_t begin) {
  return flat.narrow(0, slot.begin - begin, slot.length).view(slot.param->spec().shape);
}

void Arena::bind_grads(int64_t unit, const at::Tensor& memory, int64_t begin) {
  for (const auto& slot : units_[static_cast<size_t>(unit)].slots) {
    slot.param->bind_grad(view(memory, slot, begin));
  }
}

void Arena::publish(int64_t bucket, const schedule::Extent& extent) {
  if (weights_.is_same(masters_)) return;
  at::NoGradGuard no_grad;
  weights(bucket, extent).copy_(masters(bucket, extent));
}

void Arena::publish_weights() {
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    publish(bucket, layout_.in_slices(Kind::Masters)
                        ? part(bucket)
                        : layout_.buckets()[static_cast<size_t>(bucket)].all);
  }
}

std::vector<Slot> Arena::all_slots() const {
  std::vector<Slot> out;
  for (const auto& unit : units_) out.insert(out.end(), unit.slots.begin(), unit.slots.end());
  out.insert(out.end(), frozen_.begin(), frozen_.end());
  return out;
}

at::Tensor Arena::value_of(const std::string& name) {
  for (const auto& slot : all_slots()) {
    if (slot.param->spec().name != name) continue;
    return view(slot.param->spec().trainable ? masters_ : frozen_values_, slot);
  }
  return {};
}

int64_t Arena::num_parameters() const {
  int64_t count = num_trainable_parameters();
  for (const auto& slot : frozen_) count += slot.length;
  return count;
}

int64_t Arena::num_trainable_parameters() const {
  int64_t count = 0;
  for (const auto& unit : units_) {
    for (const auto& slot : unit.slots) count += slot.length;
  }
  return count;
}

}  // namespace convoy::parallel
