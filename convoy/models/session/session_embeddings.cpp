#include "convoy/models/session/session_embeddings.h"
#include "convoy/models/session/session_bodies.h"

#include <ATen/ATen.h>

#include "convoy/masking/item_masking.h"
#include "convoy/models/session/session_targets.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/layers/layers.h"

namespace convoy::models {

using nn::Init;
using nn::Mode;

SessionEmbeddings::SessionEmbeddings(const SessionConfig& config, const std::string& name)
    : SessionFeatures(config, name) {
  const int64_t D = config.d_model, P = config.num_positions();
  const auto init = Init::normal(config.initializer_range);
  if (config.has_cls()) cls_ = declare({"cls_token", {D}, init});
  const auto& body = session_body(config.body);
  const std::string embeddings = body.name + ".embeddings.";
  switch (body.positions) {
    case BodyPositions::FromStart:
      positions_ = declare({"transformer.wpe.weight", {P, D}, init});
      break;
    case BodyPositions::FromEnd:
      positions_ = declare_table("pos_encoding_layer.pos_emb.weight", {P, D}, init);
      break;
    case BodyPositions::WithTypes:
      positions_ = declare({embeddings + "position_embeddings.weight", {P, D}, init});
      token_types_ = declare({embeddings + "token_type_embeddings.weight", {2, D}, init});
      norm_ = declare_norm(embeddings + "LayerNorm", D);
      break;
    case BodyPositions::InLayers:
      break;
  }
  if (!body.embedding_map.empty()) {
    mapping_ = declare_dense(body.embedding_map, D, D, config.initializer_range);
  }
  num_params_ = params().size();
}

SessionEmbeddings::SessionEmbeddings(const SessionEmbeddings& first, const std::string& name)
    : SessionFeatures(first, name),
      cls_(first.cls_),
      positions_(first.positions_),
      token_types_(first.token_types_),
      norm_(first.norm_),
      mapping_(first.mapping_),
      num_params_(first.num_params_) {
  for (size_t i = 0; i < num_params_; ++i) tie(first.params()[i]);
}

at::Tensor SessionEmbeddings::cls_mask(const at::Tensor& ids, const nn::Context& context) const {
  const auto places = SessionTargets::cls_places(config_, ids, context.mode);
  return at::arange(ids.size(1), ids.options()) == places.unsqueeze(1);
}

at::Tensor SessionEmbeddings::with_cls(const at::Tensor& x, const at::Tensor& ids,
                                       const nn::TensorRanks& ranks,
                                       const nn::Context& context) const {
  return cls_ ? nn::replace_rows(x, ranks.own(cls_mask(ids, context)), cls_) : x;
}

at::Tensor SessionEmbeddings::places_from_end(const at::Tensor& ids,
                                              const nn::Context& context) const {
  // The last item predicts in prediction, else the one before it.
  const auto last = masking::session_lengths(ids) - (context.mode == Mode::Predict ? 1 : 2);
  return (last.unsqueeze(1) - at::arange(ids.size(1), ids.options())).clamp_min(0);
}

at::Tensor SessionEmbeddings::add_positions(const at::Tensor& x, const at::Tensor& ids,
                                            const nn::TensorRanks& ranks,
                                            const nn::Context& context) const {
  auto placed = x;
  if (config_.counts_from_end()) {
    placed = x + nn::embedding(places_from_end(ids, context), positions_, false, ranks);
  } else if (positions_) {
    placed = nn::add_positions(x, positions_, ranks);
  }
  if (token_types_) {
    placed = placed + nn::embedding(at::zeros_like(ids), token_types_, false, ranks);
    placed = nn::layer_norm(placed, norm_, config_.layer_norm_epsilon);
  }
  placed = nn::dropout(placed, config_.dropout, context, 0, ranks);
  return mapping_.weight ? nn::linear(placed, mapping_).to(at::kFloat) : placed;
}

}  // namespace convoy::models
