#include "convoy/models/session/replaced_items.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <typeinfo>

#include "convoy/base/gumbel.h"
#include "convoy/comm/device.h"
#include "convoy/masking/item_masking.h"
#include "convoy/masking/row_keys.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/ranking.h"

namespace convoy::models {

using nn::Mode;

namespace {

constexpr uint64_t kDrawSite = 0x67756d62;  // keeps these draws apart from others

/// Wrapper that skips a layer in evaluation and prediction.
class TrainingOnly : public nn::Block {
 public:
  explicit TrainingOnly(nn::BlockPtr layer) : Block(layer->name()), layer_(std::move(layer)) {
    for (const auto& param : layer_->params()) tie(param);
  }
  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    return context.mode == Mode::Train ? layer_->forward(in, context) : in;
  }
  std::string cost_key() const override {
    const auto& layer = *layer_;
    return fmt::format("{} {}", typeid(layer).name(), layer.cost_key());
  }

 private:
  nn::BlockPtr layer_;
};

}  // namespace

ReplacedItems::ReplacedItems(const SessionConfig& config, const SessionEmbeddings& input)
    : SessionEmbeddings(input, "replaced_items") {
  const int64_t width = item_table()->spec().shape[1];
  dense_ =
      declare_dense("generator_predictions.dense", config.d_model, width, config.initializer_range);
  norm_ = declare_norm("generator_predictions.LayerNorm", width);
  output_ = config.weight_tying
                ? item_table()
                : declare_matrix("generator_lm_head.weight", {config.item().cardinality, width},
                                 nn::Init::normal(config.initializer_range), {0});
}

nn::Bundle ReplacedItems::forward(const nn::Bundle& in, const nn::Context& context) {
  const auto& hidden = in.at("hidden");
  const auto &positions = in.at("asked"), &ids = in.at("item_ids");
  const auto asked = hidden.reshape({-1, hidden.size(2)}).index_select(0, positions);
  auto out = in;
  out["generated"] = nn::layer_norm(nn::activate("gelu", nn::linear(asked, dense_)), norm_,
                                    config_.layer_norm_epsilon);
  if (context.mode != Mode::Train) return out;
  nn::Bundle columns;
  for (const auto& feature : config_.features) {
    const auto name = column_of(feature.name);
    columns[feature.name] = in.at(name);
    out.erase(name);
  }
  const auto drawn = draw(out.at("generated").detach(), positions, ids, context);
  const auto replaced = ids.reshape({-1}).index_copy(0, positions, drawn).view_as(ids);
  columns[config_.item_feature] = replaced;
  out["replaced"] = replaced != ids;
  out["generator_hidden"] = hidden;
  const auto x = with_cls(joined(columns, {}, context), ids, {}, context);
  out["hidden"] = add_positions(x, ids, {}, context);
  return out;
}

at::Tensor ReplacedItems::draw(const at::Tensor& generated, const at::Tensor& positions,
                               const at::Tensor& ids, const nn::Context& context) const {
  at::NoGradGuard no_grad;
  const int64_t count = positions.size(0), length = ids.size(1);
  const int64_t num_items = config_.item().cardinality - 1;
  const auto keys = masking::row_keys(ids, kDrawSite, context);
  const auto places = comm::download(positions).contiguous();
  const auto* place = places.const_data_ptr<int64_t>();
  const int64_t piece = nn::score_rows_at_once(num_items, generated.device());
  auto drawn = at::empty({count}, positions.options());
  for (int64_t begin = 0; begin < count; begin += piece) {
    const int64_t rows = std::min(piece, count - begin);
    auto noise = at::empty({rows, num_items});
    auto* numbers = noise.mutable_data_ptr<float>();
    at::parallel_for(0, rows, at::divup(4096, num_items), [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        const int64_t at = place[begin + i];
        const auto key = hash_combine(keys[static_cast<size_t>(at / length)],
                                      static_cast<uint64_t>(at % length));
        fill_gumbel(key, num_items, numbers + i * num_items);
      }
    });
    const auto scores = nn::tied_scores(generated.narrow(0, begin, rows), output_,
                                        config_.temperature, /*first_id=*/1);
    drawn.narrow(0, begin, rows)
        .copy_((scores + comm::upload(noise, scores.device())).argmax(1) + 1);
  }
  return drawn;
}

ReplacementDetector::ReplacementDetector(
    const SessionConfig& config,
    const std::function<nn::DenseParams(const std::string&, int64_t)>& declare)
    : activation_(config.activation_kind()),
      dense_(declare("discriminator_predictions.dense", config.d_model)),
      prediction_(declare("discriminator_predictions.dense_prediction", 1)) {}

at::Tensor ReplacementDetector::loss(const nn::Bundle& in, const at::Tensor& num_asked) const {
  const auto states = nn::activate(activation_, nn::linear(in.at("hidden"), dense_));
  const auto score = nn::linear(states, prediction_).squeeze(2).to(at::kFloat);
  auto items = in.at("item_ids") != 0;
  if (const auto context = in.find(kNumContext); context != in.end()) {
    const auto places = at::arange(items.size(1), context->second.options());
    items = items.logical_and(places >= context->second.unsqueeze(1));
  }
  const auto real = items.to(at::kFloat);
  const auto replaced = in.at("replaced");
  const auto losses = -at::log_sigmoid(at::where(replaced, score, -score)) * real;
  const auto means = losses.sum(1) / real.sum(1).clamp_min(1);
  return (means * num_asked).sum();
}

nn::BlockPtr make_training_only(const nn::BlockPtr& layer) {
  return std::make_shared<TrainingOnly>(layer);
}

}  // namespace convoy::models
