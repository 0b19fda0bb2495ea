#include "convoy/models/session/item_tower.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/random.h"
#include "convoy/comm/device.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/node.h"

namespace convoy::models {

using nn::Init;

namespace {

constexpr uint64_t kIdDropoutSite = 0x69746964;  // keeps these draws apart from others

/// Factors [I] fp32 of id dropout: 0 for a share of the items, drawn for this step, else 1.
at::Tensor kept_ids(int64_t num_items, double rate, const nn::Context& context) {
  const auto step = hash_combine(mix64(context.seed), static_cast<uint64_t>(context.step));
  const uint64_t key = hash_combine(step, kIdDropoutSite);
  auto out = at::empty({num_items}, at::kFloat);
  auto* kept = out.data_ptr<float>();
  for (int64_t id = 0; id < num_items; ++id) {
    kept[id] = uniform01(key, static_cast<uint64_t>(id)) < rate ? 0.0F : 1.0F;
  }
  return out;
}

/// Returns `rows` with zeros where `ids` [R] are 0, which stands for no category.
at::Tensor without_none(const at::Tensor& rows, const at::Tensor& ids) {
  return rows.masked_fill((ids == 0).unsqueeze(1), 0);
}

}  // namespace

ItemTower::ItemTower(const SessionConfig& config, nn::ParamPtr ids, const Declare& declare)
    : values_(config.item_values), id_dropout_(config.item_id_dropout), ids_(std::move(ids)) {
  internal_check(values_ != nullptr, "models", "an item tower without the features of items");
  const int64_t W = ids_->spec().shape[1];
  const auto init = Init::normal(config.embedding_initializer_range, /*zero_row=*/0);
  for (const auto& feature : config.item_tower) {
    if (!feature.categorical()) continue;
    nn::ParamSpec table{item_tower_name(feature.name), {feature.cardinality, W}, init};
    table.read_in_backward = false;
    categories_[feature.name] = params_.emplace_back(declare(std::move(table)));
  }
  if (const int64_t C = config.item_tower_numbers(); C > 0) {
    nn::ParamSpec map{kItemTowerNumbers, {W, C}, Init::normal(config.initializer_range)};
    numbers_ = params_.emplace_back(declare(std::move(map)));
  }
  all_trained_ = values_->trained.all().item<bool>();  // on the host
  all_have_rows_ = values_->num_items() == ids_->spec().shape[0];
}

const ItemTower::Constants& ItemTower::constants(at::Device device) const {
  if (constants_.trained.defined() && constants_.trained.device() == device) return constants_;
  const auto here = [&](const at::Tensor& tensor) { return comm::upload(tensor, device); };
  const auto& all = *values_;
  Constants out;
  for (const auto& [name, ids] : all.categories) out.categories[name] = here(ids);
  if (numbers_) out.numbers = here(all.numbers);
  out.trained = here(all.trained.to(at::kFloat));
  if (!all_trained_) {
    const auto kept = all.trained.nonzero().squeeze(1);  // on the host
    auto places = at::zeros({all.num_items()}, at::kLong);
    places.index_copy_(0, kept, at::arange(kept.size(0), at::kLong));
    out.kept = here(kept);
    out.places = here(places);
  }
  constants_ = std::move(out);
  return constants_;
}

at::Tensor ItemTower::factors(at::Device device, const nn::Context& context) const {
  const bool drops = id_dropout_ > 0 && context.mode == nn::Mode::Train;
  if (!drops) return all_trained_ && all_have_rows_ ? at::Tensor() : constants(device).trained;
  const std::pair key{context.seed, context.step};
  if (!drawn_.defined() || drawn_.device() != device || drawn_for_ != key) {
    drawn_ = comm::upload(kept_ids(values_->num_items(), id_dropout_, context), device);
    drawn_for_ = key;
  }
  return drawn_ * constants(device).trained;
}

at::Tensor ItemTower::own_rows(const at::Tensor& items, const nn::Context& context) const {
  const auto factor = factors(items.device(), context);
  if (!factor.defined()) return nn::embedding(items, ids_, /*padding=*/true);
  const int64_t V = ids_->shape()[0];
  const auto places = all_have_rows_ ? items : items.masked_fill(items >= V, 0);
  return nn::embedding(places, ids_, /*padding=*/true) * factor.index_select(0, items).unsqueeze(1);
}

at::Tensor ItemTower::rows(const at::Tensor& items, const nn::Context& context) const {
  const auto flat = items.reshape({-1});
  const auto& all = constants(items.device());
  auto out = own_rows(flat, context);
  for (const auto& [name, table] : categories_) {
    const auto ids = all.categories.at(name).index_select(0, flat);
    out = out + nn::embedding(ids, table, /*padding=*/true).sum(1);
  }
  if (numbers_) {
    const auto numbers = all.numbers.index_select(0, flat);
    out = out + nn::linear(numbers, numbers_, nullptr, /*in_first=*/false).to(at::kFloat);
  }
  auto shape = items.sizes().vec();
  shape.push_back(out.size(1));
  return out.view(shape);
}

at::Tensor ItemTower::table(const nn::Context& context) const {
  at::NoGradGuard no_grad;
  const auto& weights = ids_->value();
  const auto& all = constants(weights.device());
  const int64_t I = values_->num_items(), V = weights.size(0);
  auto out = at::zeros({I, weights.size(1)}, weights.options().dtype(at::kFloat));
  out.narrow(0, 0, V).copy_(weights);
  const auto factor = factors(weights.device(), context);
  if (factor.defined()) out.mul_(factor.unsqueeze(1));
  for (const auto& [name, table] : categories_) {
    const auto& ids = all.categories.at(name);
    for (int64_t place = 0; place < ids.size(1); ++place) {
      const auto own = ids.select(1, place);
      out.add_(without_none(table->value().index_select(0, own).to(at::kFloat), own));
    }
  }
  if (numbers_) out.addmm_(all.numbers, numbers_->value().to(at::kFloat).t());
  return out.to(weights.scalar_type());
}

TowerScores ItemTower::scores(const at::Tensor& states, bool known_only,
                              const nn::Context& context) const {
  auto rows = table(context);
  const auto& all = constants(rows.device());
  const bool some = known_only && !all_trained_;
  if (some) rows = rows.index_select(0, all.kept);
  TowerScores out;
  out.table = std::make_shared<nn::Param>(
      nn::ParamSpec{"item_tower.vectors", rows.sizes().vec(), Init::given()});
  out.table->bind_value(rows);
  out.states = states;
  if (some) out.places = all.places;
  if (!at::GradMode::is_enabled()) return out;
  const auto grad = at::zeros(rows.sizes(), rows.options().dtype(at::kFloat));
  out.table->bind_grad(grad);
  const auto items = some ? all.kept : at::Tensor();
  const auto factor = factors(rows.device(), context);
  // All readers of the table are recorded after these states, so their backward runs before this
  // one.
  out.states = nn::with_backward(
      states.detach().clone(), {states},
      [this, grad, items, factor](const at::Tensor& to_states) -> std::vector<at::Tensor> {
        hand_over(grad, items, factor);
        return {to_states};
      });
  return out;
}

void ItemTower::hand_over(const at::Tensor& grad, const at::Tensor& items,
                          const at::Tensor& factors) const {
  const auto& all = constants(grad.device());
  const auto of_items = [&](const at::Tensor& by_item) {
    return items.defined() ? by_item.index_select(0, items) : by_item;
  };
  const int64_t V = ids_->shape()[0];
  ids_->add_to_grad([&](at::Tensor& to) {
    const auto own = factors.defined() ? grad * of_items(factors).unsqueeze(1) : grad;
    if (items.defined()) {  // those that training saw have rows
      to.index_add_(0, items, own);
    } else {
      to.add_(own.narrow(0, 0, V));
    }
  });
  for (const auto& [name, table] : categories_) {
    const auto ids = of_items(all.categories.at(name));
    table->add_to_grad([&, &own_ids = ids](at::Tensor& to) {
      for (int64_t place = 0; place < own_ids.size(1); ++place) {
        const auto own = own_ids.select(1, place);
        nn::add_rows(to, own, without_none(grad, own));
      }
    });
  }
  if (!numbers_) return;
  numbers_->add_to_grad([&](at::Tensor& to) { to.addmm_(grad.t(), of_items(all.numbers)); });
}

}  // namespace convoy::models
