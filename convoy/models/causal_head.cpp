#include "convoy/models/causal_head.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "convoy/nn/cross_entropy.h"
#include "convoy/nn/few_rows.h"
#include "convoy/nn/layers.h"
#include "convoy/nn/rms_norm.h"

// Shapes: B rows, T positions, D width, V vocabulary, K positions whose logits are wanted.
namespace convoy::models {

namespace {

/// Flat positions [B x K] whose logits are wanted.
at::Tensor wanted_positions(const nn::Bundle& in, int64_t B, int64_t T) {
  auto options = in.at("input_ids").options();
  auto row_start = at::arange(B, options).unsqueeze(1) * T;
  const auto keep = in.find("logits_to_keep");
  if (keep != in.end()) {
    const auto asked = keep->second.item<int64_t>();
    const int64_t K = asked == 0 ? T : std::clamp<int64_t>(asked, 1, T);
    return (row_start + at::arange(T - K, T, options)).view({-1});
  }
  const auto mask = in.find("key_mask");
  if (mask == in.end()) return row_start.view({-1}) + (T - 1);
  auto last = (mask->second * at::arange(T, options)).amax(1);
  return row_start.view({-1}) + last;
}

class CausalHead : public nn::Block {
 public:
  explicit CausalHead(const CausalHeadOptions& options) : Block("head"), epsilon_(options.epsilon) {
    const auto& shape = options.table->spec().shape;
    if (!options.norm.empty() && options.norm_has_bias) {
      norm_ = declare_norm(options.norm, shape[1]);
    } else if (!options.norm.empty()) {
      norm_.weight = declare_vector(options.norm + ".weight", shape[1], nn::Init::ones());
    }
    const auto init = nn::Init::normal(options.initializer_range);
    table_ = options.tied ? tie(options.table) : declare_matrix("lm_head.weight", shape, init, {0});
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& x = in.at("hidden");
    if (context.mode == nn::Mode::Predict) {
      auto h = states(x, wanted_positions(in, x.size(0), x.size(1)));
      const auto table = table_->value().to(at::kFloat);
      return {{"logits",
               nn::product_of_rows(h.to(at::kFloat), table.t()).view({x.size(0), -1, num_ids()})}};
    }
    auto targets = in.at("targets").reshape({-1});
    auto positions = (targets >= 0).nonzero().squeeze(1);
    nn::CrossEntropyOptions options{.first_id = 0};
    options.count_correct = context.mode == nn::Mode::Evaluate;
    const auto entropy = nn::cross_entropy(states(x, positions), table_,
                                           targets.index_select(0, positions), options);
    nn::Bundle out{{"loss", entropy.loss},
                   {"count", at::scalar_tensor(positions.numel(), at::kLong)}};
    if (options.count_correct) out["correct"] = entropy.correct;
    return out;
  }

 private:
  int64_t num_ids() const { return table_->spec().shape[0]; }

  at::Tensor states(const at::Tensor& x, const at::Tensor& positions) const {
    auto h = x.reshape({-1, x.size(-1)}).index_select(0, positions);
    if (!norm_.weight) return h;
    return norm_.bias ? nn::layer_norm(h, norm_, epsilon_)
                      : nn::rms_norm(h, norm_.weight, epsilon_);
  }

  double epsilon_;
  nn::NormParams norm_;
  nn::ParamPtr table_;
};

}  // namespace

nn::BlockPtr make_causal_head(const CausalHeadOptions& options) {
  return std::make_shared<CausalHead>(options);
}

}  // namespace convoy::models
