#include "convoy/parallel/buffers/flat_buffers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/nn/declare.h"

namespace convoy::parallel {

FlatBuffers::FlatBuffers(const nn::BlockList& blocks, Layout layout, FlatBuffersOptions options,
                         const FlatBuffers* share_weights_with)
    : options_(std::move(options)),
      states_(options_.optimizer->states()),
      layout_(std::move(layout)) {
  place_params(blocks);
  allocate(share_weights_with);
}

void FlatBuffers::place_params(const nn::BlockList& blocks) {
  const auto params = nn::params_of(blocks);
  const bool experts_apart = layout_.options().tensor.num_expert_ranks > 1;
  for (const auto& [name, indices] : units_of(nn::declare(blocks), experts_apart).units) {
    const auto u = static_cast<int64_t>(units_.size());
    auto& unit = units_.emplace_back();
    unit.name = name;
    for (size_t p = 0; p < indices.size(); ++p) {
      auto& slot = unit.slots.emplace_back();
      slot.param = params[static_cast<size_t>(indices[p])];
      slot.param->cut(layout_.options().tensor);
      if (!layout_.holds_unit(u)) continue;
      const auto& place = layout_.units()[static_cast<size_t>(u)].params[p];
      slot.begin = place.begin;
      slot.length = place.length();
    }
  }
}

void FlatBuffers::allocate(const FlatBuffers* from) {
  const auto compute = fp32().dtype(weight_dtype());
  const bool low = layout_.options().low_precision;
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
    for (size_t k = 0; options_.trains && k < states_.size(); ++k) {
      moments_.push_back(zeros(Kind::Moments, fp32().dtype(states_[k].dtype)));
    }
  }
  if (options_.offload.any()) {
    offload_ = std::make_unique<Offload>(layout_, options_.offload, options_.device,
                                         options_.compute_dtype, states_);
  }
  pool_ = Pool(compute);
  attached_.resize(layout_.buckets().size());
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    const auto& all = layout_.buckets()[static_cast<size_t>(bucket)].all;
    if (layout_.is_sharded(Kind::Weights, bucket)) {
      bucket_weights_.push_back(at::empty({all.length()}, compute));
      detach(bucket);
    } else {
      bucket_weights_.push_back(weights(bucket, all));
    }
  }
}

void FlatBuffers::change(int64_t bucket, std::initializer_list<Kind> kinds,
                         const std::function<void()>& work) {
  std::set<Kind> absent;
  for (const Kind asked : kinds) {
    const auto kind = layout_.held_as(asked, bucket);
    if (offloaded(kind)) absent.insert(kind);
  }
  for (const Kind kind : absent) offload_->fetch(kind, bucket);
  work();
  for (const Kind kind : absent) offload_->store(kind, bucket);
}

void FlatBuffers::change_pieces(const std::function<bool(const Piece&)>& wanted,
                                const std::function<void(int64_t bucket, const Piece&)>& work) {
  std::map<int64_t, std::vector<Piece>> buckets;
  for (const auto& piece : layout_.pieces(options_.rank)) {
    if (wanted(piece)) buckets[layout_.bucket_of(piece.unit)].push_back(piece);
  }
  for (const auto& [bucket, pieces] : buckets) {
    change(bucket, {Kind::Masters}, [&, at = bucket, &all = pieces] {
      for (const auto& piece : all) work(at, piece);
    });
  }
}

namespace {

/// Sets whether a storage may be read. A user's module that reads weights while they are not
/// gathered gets torch's error, where torch has one, instead of a null pointer.
template <class Storage>
void set_readable(Storage* storage, bool readable) {
  if constexpr (requires { storage->clear_data_ptr_access_error_msg_(); }) {
    if (readable) return storage->clear_data_ptr_access_error_msg_();
    storage->release_data_and_set_meta_custom_data_ptr_error_msg_(
        "[parallel] these weights are sharded over the ranks (zero = 3) and only there while a "
        "step needs them; try the files that the run saves, or zero = 2");
  }
}

}  // namespace

void FlatBuffers::attach(int64_t bucket) {
  const auto b = static_cast<size_t>(bucket);
  internal_check(!attached_[b].defined(), "parallel", "bucket {} is there already", bucket);
  auto memory = attached_[b] = pool_.take(layout_.buckets()[b].all.length());
  auto* storage = bucket_weights_[b].storage().unsafeGetStorageImpl();
  set_readable(storage, true);
  storage->set_data_ptr_noswap(at::DataPtr(memory.data_ptr(), memory.device()));
}

void FlatBuffers::detach(int64_t bucket) {
  const auto b = static_cast<size_t>(bucket);
  auto* storage = bucket_weights_[b].storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, bucket_weights_[b].device()));
  set_readable(storage, false);
  if (attached_[b].defined()) pool_.give(std::exchange(attached_[b], {}));
}

void FlatBuffers::bind() {
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

/// Takes over the values of a user's modules.
void FlatBuffers::take_leaves() {
  at::NoGradGuard no_grad;
  const auto leaf_of = [this](const Piece& piece) {
    const auto& slots = units_[static_cast<size_t>(piece.unit)].slots;
    return slots[static_cast<size_t>(piece.param)].param->leaf();
  };
  change_pieces(
      [&](const Piece& piece) { return leaf_of(piece).defined(); },
      [&](int64_t bucket, const Piece& piece) {
        const auto values = leaf_of(piece).detach().reshape({-1});
        each_row(piece, [&](const Piece& row) {
          masters(bucket, {row.place, row.end()}).copy_(values.narrow(0, row.begin, row.length));
        });
      });
}

at::Tensor FlatBuffers::narrow(Kind asked, int64_t bucket, const Extent& extent,
                               size_t moment) const {
  const auto kind = layout_.held_as(asked, bucket);
  if (offloaded(kind)) {
    const auto whole = kept(kind, bucket);
    return offload_->here(kind, bucket, moment)
        .narrow(0, extent.begin - whole.begin, extent.length());
  }
  const auto& flat = kind == Kind::Weights     ? weights_
                     : kind == Kind::Masters   ? masters_
                     : kind == Kind::Gradients ? grads_
                                               : moments_.at(moment);
  return flat.narrow(0, layout_.place_in(kind, bucket, options_.rank, extent.begin),
                     extent.length());
}

at::Tensor FlatBuffers::view(Kind asked, int64_t bucket, size_t moment) const {
  const auto kind = layout_.held_as(asked, bucket);
  if (!offloaded(kind)) return narrow(kind, bucket, kept(kind, bucket), moment);
  return offload_->view(kind, bucket, moment);
}

at::Tensor FlatBuffers::view(const at::Tensor& flat, const Slot& slot, int64_t begin) {
  return flat.narrow(0, slot.begin - begin, slot.length).view(slot.param->shape());
}

void FlatBuffers::bind_grads(int64_t unit, const at::Tensor& memory, int64_t begin,
                             const std::vector<bool>& written, bool of_others) {
  const auto& slots = units_[static_cast<size_t>(unit)].slots;
  for (size_t s = 0; s < slots.size(); ++s) {
    slots[s].param->bind_grad(view(memory, slots[s], begin), !written.empty() && written[s],
                              of_others);
  }
}

void FlatBuffers::publish(int64_t bucket, const Extent& extent) {
  if (layout_.held_as(Kind::Masters, bucket) == Kind::Weights) return;
  at::NoGradGuard no_grad;
  weights(bucket, extent).copy_(masters(bucket, extent));
}

void FlatBuffers::publish_weights() {
  if (!layout_.options().low_precision) return;
  for (int64_t bucket = 0; bucket < layout_.num_buckets(Kind::Masters); ++bucket) {
    change(bucket, {Kind::Masters, Kind::Weights},
           [&] { publish(bucket, kept(Kind::Masters, bucket)); });
  }
}

void FlatBuffers::fill(double value) {
  at::NoGradGuard no_grad;
  for (int64_t bucket = 0; bucket < layout_.num_buckets(); ++bucket) {
    change(bucket, {Kind::Masters},
           [&] { masters(bucket, kept(Kind::Masters, bucket)).fill_(value); });
  }
  publish_weights();
}

std::vector<Slot> FlatBuffers::all_slots() const {
  std::vector<Slot> out;
  for (const auto& unit : units_) out.insert(out.end(), unit.slots.begin(), unit.slots.end());
  return out;
}

at::Tensor FlatBuffers::value_of(const std::string& name) {
  for (const auto& slot : all_slots()) {
    if (slot.param->spec().name != name || slot.length == 0) continue;
    return view(slot.param->spec().trainable ? masters_ : weights_, slot);
  }
  return {};
}

int64_t FlatBuffers::num_parameters() const {
  int64_t count = 0;
  for (const auto& slot : all_slots()) count += num_elements(slot.param->spec().shape);
  return count;
}

int64_t FlatBuffers::num_trainable_parameters() const {
  int64_t count = 0;
  for (const auto& slot : all_slots()) {
    const auto& spec = slot.param->spec();
    count += spec.trainable ? num_elements(spec.shape) : 0;
  }
  return count;
}

}  // namespace convoy::parallel
