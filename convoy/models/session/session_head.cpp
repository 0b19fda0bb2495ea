#include "convoy/models/session/session_head.h"
#include "convoy/models/session/session_bodies.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/masking/item_masking.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/session/asked_items.h"
#include "convoy/models/session/event_weights.h"
#include "convoy/models/session/negatives.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/ranking.h"

// Shapes: B rows, T positions, D = d_model, V = number of item ids with padding, N = targets.
namespace convoy::models {

using nn::Mode;

namespace {

/// Sampling weights of the ids from `first` on: counts to the power of negative_alpha. An item
/// without a count counts as occurring once.
std::vector<double> popularity_weights(const SessionConfig& config, int64_t first) {
  std::vector<double> out;
  for (int64_t id = first; id < config.item().cardinality; ++id) {
    const auto at = static_cast<size_t>(id);
    const int64_t count = at < config.item_counts.size() ? config.item_counts[at] : 1;
    out.push_back(
        std::pow(static_cast<double>(std::max<int64_t>(1, count)), config.negative_alpha));
  }
  return out;
}

}  // namespace

SessionHead::SessionHead(const SessionConfig& config, const nn::ParamPtr& output,
                         std::shared_ptr<const ItemTower> tower)
    : Block("head"),
      config_(config),
      epsilon_(config.layer_norm_epsilon),
      tower_(std::move(tower)),
      first_id_(config.score_padding ? 0 : 1) {
  const int64_t D = config.d_model;
  if (const auto& last = session_body(config.body).last_norm) {
    norm_ = declare_norm(last->name, D);
    epsilon_ = last->epsilon.value_or(epsilon_);
  }
  const int64_t item_dim = output ? output->spec().shape[1] : D;
  const auto init = nn::Init::normal(config.initializer_range);
  if (config.detects()) {  // the generator predicts from what is as wide as an item
    detector_.emplace(config, [&](const std::string& name, int64_t width) {
      return declare_dense(name, D, width, config.initializer_range);
    });
  } else if (item_dim != D) {
    output_projection_ = declare({"output_projection.weight", {item_dim, D}, init});
  }
  const std::vector<int64_t> shape{config.item().cardinality, D};
  items_ = output ? tie(output) : declare_matrix("lm_head.weight", shape, init, {0});
  for (const auto& param : tower_ ? tower_->params() : std::vector<nn::ParamPtr>()) tie(param);
  if (!config.targets.empty()) {
    targets_.emplace(config, [&](const std::string& name) {
      return declare_dense(name, D, 1, config.initializer_range);
    });
  }
  if (config.has_in_batch_negatives()) {
    in_batch_.emplace(config.item_counts, config.item().cardinality);
  } else if (config.sampled_softmax && config.negative_sampling == "popularity") {
    sampler_.emplace(first_id_, popularity_weights(config, first_id_), config.max_n_samples);
  } else if (config.sampled_softmax) {
    sampler_.emplace(first_id_, config.item().cardinality, config.max_n_samples,
                     config.negative_sampling);
  }
}

nn::Bundle SessionHead::forward(const nn::Bundle& in, const nn::Context& context) {
  const auto targets = targets_of(in, context);
  auto out = next_items(in, targets, context);
  if (const auto missed = in.find(kMissed); missed != in.end()) out[kMissed] = missed->second;
  const bool detects = detector_ && context.mode == Mode::Train;
  if (!targets_ && !detects) return out;
  const auto& ids = in.at("item_ids");
  const auto rows = targets.positions.div(ids.size(1), "floor");
  const auto num_asked = targets_of_rows(ids.size(0), rows, targets.weights);
  if (detects) {
    const auto detecting = detector_->loss(in, num_asked);
    out["loss"] = out.at("loss") + detecting * config_.rtd_discriminator_loss_weight;
  }
  if (!targets_) return out;
  if (context.mode != Mode::Predict) out["loss"] = out.at("loss") * config_.next_item_weight;
  const auto none =
      targets.weights.defined() ? targets_of_rows(ids.size(0), rows, {}) == 0 : num_asked == 0;
  targets_->add(in, normed(in.at(detects ? "generator_hidden" : "hidden")),
                num_asked.masked_fill(none, 1), context, out);
  return out;
}

at::Tensor SessionHead::rows_read(const nn::Param&, const nn::Bundle& batch,
                                  const nn::Context& context) {
  const auto& ids = batch.at(config_.item_feature);
  const auto targets = ids.reshape({-1});
  // In-batch negatives read rows of the targets of other ranks and micro-batches.
  if (context.mode != Mode::Train || in_batch_) return targets;
  if (sampler_) return at::cat({targets, sampler_->draw(context.seed, context.step)});
  // Only some masked items are targets; negatives are drawn for all.
  const auto next = config_.masks_items() ? ids : at::constant_pad_nd(ids.slice(1, 1), {0, 1});
  const auto asked = next.reshape({-1});
  const auto positions = asked.nonzero().squeeze(1);  // on the host
  return at::cat(
      {targets,
       own_negatives(ids, positions, asked.index_select(0, positions), context).reshape({-1})});
}

at::Tensor SessionHead::told_ids(const nn::Bundle& batch, const nn::Context& context) {
  auto places = training_targets(config_, batch, context);
  if (const auto& weights = config_.event_weights; !weights.column.empty()) {
    const auto of_targets = event_weights(weights, batch).reshape({-1}).index_select(0, places);
    places = places.masked_select(of_targets > 0);  // on the host
  }
  return batch.at(config_.item_feature).reshape({-1}).index_select(0, places);
}

at::Tensor SessionHead::asked_states(const nn::Bundle& in, const Targets& targets) const {
  if (config_.detects()) return in.at("generated");
  const auto& x = in.at(config_.permutes() ? "query" : "hidden");
  return x.reshape({-1, x.size(-1)}).index_select(0, targets.positions);
}

nn::Bundle SessionHead::next_items(const nn::Bundle& in, const Targets& targets,
                                   const nn::Context& context) const {
  if (context.mode == Mode::Predict) {
    const auto h = states(asked_states(in, targets));
    if (config_.predicts_states) {
      return {{"states", h.to(at::kFloat)},
              {"num_items", masking::session_lengths(in.at("item_ids"))}};
    }
    const auto table = scored(h, /*known_only=*/false, context).table;
    return {{"scores", nn::tied_scores(h, table, config_.temperature, 1, context.tensor)}};
  }
  const auto count = targets.weights.defined()
                         ? targets.weights.sum(at::kDouble)
                         : at::scalar_tensor(targets.items.numel(), at::kLong);
  if (samples() && context.mode == Mode::Train) {
    const auto h = scored(states(asked_states(in, targets)), /*known_only=*/false, context);
    return {{"loss", sampled_loss(in, h, targets, context)}, {"count", count}};
  }
  if (items_->is_by_rows()) {
    const auto rows = asked_states(in, targets);
    const auto number = [](double value) { return at::scalar_tensor(value, at::kDouble); };
    const auto [unseen, excluded] = left_out_of(in, targets);
    nn::Bundle left_out;
    if (unseen.defined()) left_out["row_unseen"] = unseen;
    if (excluded.defined()) left_out["row_excluded"] = excluded;
    nn::Bundle out{{"loss", at::zeros({}, rows.options().dtype(at::kFloat))},
                   {"count", count},
                   {"row_states", states(rows).to(at::kFloat) / config_.temperature},
                   {"row_targets", targets.items},
                   {"row_first", number(static_cast<double>(first_id_))},
                   {"row_weight", number(targets_ ? config_.next_item_weight : 1)}};
    out.merge(left_out);
    return out;
  }
  const auto ranks = ranks_of(in, context);
  nn::CrossEntropyOptions options{
      .temperature = config_.temperature, .first_id = first_id_, .weights = targets.weights};
  options.ranks = among_asked(ranks, targets.positions, [&] {
    const auto known = loaded_items(config_, in.at("item_ids"), context);
    const auto before = loaded_context(in, context);
    return asked_items(config_, known, context, before).to(at::kLong) - 1;
  });
  const auto own =
      states(ranks.shares() ? ranks.select(in.at("hidden"), targets.positions, options.ranks)
                            : asked_states(in, targets));
  const auto [table, h, places] = scored(own, context.mode == Mode::Train, context);
  const auto items = places.defined() ? places.index_select(0, targets.items) : targets.items;
  const auto loss =
      context.mode == Mode::Train
          ? next_item_loss(config_.loss).among_all(config_, {h, table, items, options}, context)
          : nn::cross_entropy(h, table, items, options).loss;
  nn::Bundle out{{"loss", loss}, {"count", count}};
  if (context.mode == Mode::Evaluate) {
    const auto all = options.ranks.whole(h, "states that are ranked");
    auto [target_ranks, lists] =
        nn::tied_lists(all, table, targets.items, config_.eval_list.value_or(0), first_id_,
                       context.tensor, left_out_of(in, targets));
    out["target_rank"] = std::move(target_ranks);
    if (config_.eval_list) {
      out[kTargetRow] = targets.positions.div(in.at("item_ids").size(1), "floor");
      out[kTopItems] = std::move(lists);
    }
  }
  return out;
}

nn::LeftOut SessionHead::left_out_of(const nn::Bundle& in, const Targets& targets) const {
  nn::LeftOut out;
  if (!config_.unseen_items.empty()) {
    out.ids = comm::upload(at::tensor(config_.unseen_items, at::kLong), targets.items.device());
  }
  if (const auto excluded = in.find(kExcluded); excluded != in.end()) {
    const auto rows = targets.positions.div(in.at("item_ids").size(1), "floor");
    out.of_rows = excluded->second.index_select(0, rows);
  }
  return out;
}

SessionHead::Targets SessionHead::targets_of(const nn::Bundle& in,
                                             const nn::Context& context) const {
  const auto& ids = in.at("item_ids");
  auto flat = ids.reshape({-1});
  if (auto asked = in.find("asked"); asked != in.end()) {
    const auto& positions = asked->second;
    if (context.mode == Mode::Predict) return {positions, {}, {}};
    const auto events = config_.masks_items() ? positions : positions + 1;
    Targets out{positions, flat.index_select(0, events), {}};
    if (const auto weights = in.find(kEventWeights); weights != in.end()) {
      out.weights = weights->second.reshape({-1}).index_select(0, events);
    }
    return out;
  }
  auto row_start = at::arange(ids.size(0), ids.options()) * ids.size(1);
  return {row_start + (masking::session_lengths(ids) - 1).clamp_min(0), {}, {}};
}

TowerScores SessionHead::scored(const at::Tensor& states, bool known_only,
                                const nn::Context& context) const {
  if (!tower_) return {items_, states, {}};
  return tower_->scores(states, known_only, context);
}

at::Tensor SessionHead::sampled_loss(const nn::Bundle& in, const TowerScores& scored,
                                     const Targets& targets, const nn::Context& context) const {
  const auto& [table, h, places] = scored;
  if (sampler_) {
    return nn::sampled_cross_entropy(h, table, targets.items, *sampler_,
                                     {config_.temperature, targets.weights}, context);
  }
  if (in_batch_) {
    // A block that runs alone, so that its cost is known, has no step.
    const auto step = context.step_ids != nullptr ? *context.step_ids
                                                  : nn::StepIds::of(comm::download(targets.items));
    return nn::sampled_cross_entropy(h, table, targets.items, in_batch_->of(step, targets.items),
                                     {config_.temperature, targets.weights}, context);
  }
  const auto negatives =
      own_negatives(in.at("item_ids"), targets.positions, targets.items, context);
  return next_item_loss(config_.loss)
      .with_negatives(config_,
                      {h, table, targets.items, negatives, {config_.temperature, targets.weights}},
                      context);
}

at::Tensor SessionHead::own_negatives(const at::Tensor& ids, const at::Tensor& positions,
                                      const at::Tensor& items, const nn::Context& context) const {
  return draw_negatives(ids, positions, items, first_id_, config_.item().cardinality,
                        config_.n_negatives, context);
}

at::Tensor SessionHead::normed(const at::Tensor& rows) const {
  return norm_.weight ? nn::layer_norm(rows, norm_, epsilon_) : rows;
}

at::Tensor SessionHead::states(const at::Tensor& rows) const {
  const auto h = normed(rows);
  return output_projection_ ? nn::linear(h, output_projection_, nullptr, false) : h;
}

namespace {

const SessionHead& session_head_of(const nn::BlockList& session_model) {
  const auto* head = dynamic_cast<const SessionHead*>(session_model.back().get());
  internal_check(head != nullptr, "models", "the last block is no head of a session model");
  return *head;
}

}  // namespace

const nn::ParamPtr& output_matrix(const nn::BlockList& session_model) {
  return session_head_of(session_model).output_matrix();
}

at::Tensor output_vectors(const nn::BlockList& session_model) {
  const auto& head = session_head_of(session_model);
  nn::Context context;
  context.mode = Mode::Predict;
  return head.item_tower() ? head.item_tower()->table(context) : head.output_matrix()->value();
}

}  // namespace convoy::models
