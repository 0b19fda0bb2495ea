#include "convoy/models/decoder/layer_inputs.h"

#include <ATen/ATen.h>

#include <cmath>
#include <numbers>
#include <utility>

#include "convoy/models/padding_row.h"
#include "convoy/nn/layers/layers.h"

namespace convoy::models {

LayerInputs::LayerInputs(const DecoderConfig& config, const Declare& declare)
    : width_(config.layer_input_width()),
      shrinks_(1 / std::sqrt(static_cast<double>(config.hidden_size))),
      epsilon_(config.rms_norm_eps) {
  const int64_t rows = config.vocab_size_per_layer_input.value_or(config.vocab_size);
  const int64_t all = config.num_hidden_layers * width_;
  if (const auto row = config.padding_row(); row && *row < rows) padding_ = row;
  nn::ParamSpec table{config.body() + "embed_tokens_per_layer.weight",
                      {rows, all},
                      nn::Init::normal(config.initializer_range, padding_)};
  table.cut = {0};
  table.read_in_backward = false;
  table_ = declare(std::move(table));
  projection_.weight = declare({config.body() + "per_layer_model_projection.weight",
                                {all, config.hidden_size},
                                nn::Init::normal(config.initializer_range)});
  nn::ParamSpec norm{
      config.body() + "per_layer_projection_norm.weight", {width_}, nn::Init::ones()};
  norm.decay = false;
  norm_ = declare(std::move(norm));
}

at::Tensor LayerInputs::forward(const at::Tensor& ids, const at::Tensor& known, const at::Tensor& x,
                                const nn::TensorRanks& ranks, at::ScalarType compute) const {
  check_ids(known, table_->spec().shape[0], "input_ids");
  const auto rows = untrained_at(padding_, ids, nn::embedding(ids, table_, false, ranks), ranks);
  const auto own = rows * root_in(compute, width_);
  const auto projected = (nn::linear(x, projection_) * shrinks_).unflatten(-1, {-1, width_});
  const auto normed = nn::rms_norm(projected, norm_, epsilon_);
  return (normed.flatten(-2) + own) * (1 / std::numbers::sqrt2);
}

}  // namespace convoy::models
