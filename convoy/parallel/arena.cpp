#include "convoy/parallel/arena.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <map>

#include "convoy/base/error.h"

namespace convoy::parallel {

namespace {

int64_t aligned(int64_t offset) {
  return (offset + kAlignment - 1) / kAlignment * kAlignment;
}

/// Appends parameters from `offset` on and returns where the next may start.
int64_t place(std::vector<Slot>& slots, const std::vector<nn::ParamPtr>& params, int64_t offset) {
  for (const auto& param : params) {
    slots.push_back({param, offset, param->spec().num_elements()});
    offset = aligned(offset + slots.back().length);
  }
  return offset;
}

}  // namespace

Arena::Arena(const nn::BlockList& blocks, ArenaOptions options, const Arena* share_weights_with)
    : options_(options) {
  lay_out(blocks);
  const int64_t count =
      units_.empty()
          ? 0
          : std::max_element(units_.begin(), units_.end(), [](const Unit& a, const Unit& b) {
              return a.end < b.end;
            })->end;
  const int64_t frozen =
      frozen_.empty() ? 0 : aligned(frozen_.back().begin + frozen_.back().length);
  auto fp32 = at::TensorOptions().dtype(at::kFloat).device(options.device);
  if (options.trains) grads_ = at::zeros({count}, fp32);
  if (share_weights_with != nullptr) {
    internal_check(share_weights_with->num_elements() == count, "parallel",
                   "replicas of different sizes");
    masters_ = share_weights_with->masters_;
    weights_ = share_weights_with->weights_;
    frozen_values_ = share_weights_with->frozen_values_;
  } else {
    masters_ = at::zeros({count}, fp32);
    weights_ = options.compute_dtype == at::kFloat
                   ? masters_
                   : at::zeros({count}, fp32.dtype(options.compute_dtype));
    frozen_values_ = at::zeros({frozen}, fp32);
  }
  bind_values(share_weights_with == nullptr);
  if (!options.trains) return;
  for (int64_t unit = 0; unit < static_cast<int64_t>(units_.size()); ++unit) bind_grads(unit, {});
}

void Arena::lay_out(const nn::BlockList& blocks) {
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

  std::vector<std::vector<nn::ParamPtr>> groups;
  std::vector<nn::ParamPtr> frozen;
  std::map<nn::Param*, int64_t> seen;
  table_.units_of_block.resize(blocks.size());
  for (size_t b = 0; b < blocks.size(); ++b) {
    int64_t own = -1;
    for (const auto& param : blocks[b]->params()) {
      bool fresh = seen.count(param.get()) == 0;
      if (!param->spec().trainable) {
        if (fresh) frozen.push_back(param);
        seen[param.get()] = -1;
        continue;
      }
      bool tied = readers[param.get()].size() > 1;
      if (fresh && (tied || own < 0)) {
        groups.emplace_back();
        units_.push_back({tied ? param->spec().name : blocks[b]->name()});
        if (!tied) own = static_cast<int64_t>(units_.size()) - 1;
      }
      if (fresh) {
        seen[param.get()] = tied ? static_cast<int64_t>(units_.size()) - 1 : own;
        groups[static_cast<size_t>(seen[param.get()])].push_back(param);
      }
      auto& units = table_.units_of_block[b];
      if (std::find(units.begin(), units.end(), seen[param.get()]) == units.end()) {
        units.push_back(seen[param.get()]);
      }
    }
  }

  table_.unit_bytes.assign(units_.size(), 0);
  int64_t offset = 0;
  for (int64_t index : table_.backward_order()) {
    auto& unit = units_[static_cast<size_t>(index)];
    auto& params = groups[static_cast<size_t>(index)];
    auto middle = std::stable_partition(params.begin(), params.end(),
                                        [](const auto& p) { return p->spec().decay; });
    unit.begin = offset;
    unit.decay_end = place(unit.slots, {params.begin(), middle}, offset);
    unit.end = place(unit.slots, {middle, params.end()}, unit.decay_end);
    offset = unit.end;
    table_.unit_bytes[static_cast<size_t>(index)] = (unit.end - unit.begin) * 4;
  }
  place(frozen_, frozen, 0);
}

void Arena::bind_values(bool own_weights) {
  for (const auto& unit : units_) {
    for (const auto& slot : unit.slots) {
      auto& from = slot.param->leaf().defined() ? masters_ : weights_;
      auto home = view(from, slot);
      if (own_weights && slot.param->leaf().defined()) home.copy_(slot.param->leaf().detach());
      slot.param->bind_value(home);
    }
  }
  for (const auto& slot : frozen_) {
    auto home = view(frozen_values_, slot);
    if (own_weights && slot.param->leaf().defined()) home.copy_(slot.param->leaf().detach());
    slot.param->bind_value(home);
  }
}

at::Tensor Arena::view(const at::Tensor& flat, const Slot& slot) {
  return flat.narrow(0, slot.begin, slot.length).view(slot.param->spec().shape);
}

void Arena::bind_grads(int64_t index, const at::Tensor& scratch) {
  const auto& unit = units_[static_cast<size_t>(index)];
  for (const auto& slot : unit.slots) {
    if (scratch.defined()) {
      Slot moved{slot.param, slot.begin - unit.begin, slot.length};
      slot.param->bind_grad(view(scratch, moved));
    } else {
      slot.param->bind_grad(view(grads_, slot));
    }
  }
}

void Arena::initialize(uint64_t seed, const std::set<std::string>* names) {
  at::NoGradGuard no_grad;
  for (const auto& slot : all_slots()) {
    if (names != nullptr && !names->contains(slot.param->spec().name)) continue;
    nn::initialize(slot.param->spec(), seed,
                   view(slot.param->spec().trainable ? masters_ : frozen_values_, slot));
  }
  publish_weights();
}

void Arena::publish_weights() {
  if (weights_.is_same(masters_)) return;
  at::NoGradGuard no_grad;
  weights_.copy_(masters_);
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
