#include "convoy/models/causal_head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/comm/device.h"
#include "convoy/comm/to_host.h"
#include "convoy/models/language_model.h"
#include "convoy/models/ranks_of.h"
#include "convoy/models/text_block.h"
#include "convoy/nn/documents.h"
#include "convoy/nn/experts/routing.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/losses/cross_entropy.h"
#include "convoy/nn/losses/label_smoothing.h"
#include "convoy/nn/skinny_gemm.h"
#include "convoy/nn/soft_cap.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

// Shapes: B rows, T positions, D width, V vocabulary, K positions whose logits are wanted.
namespace convoy::models {

namespace {

/// Flat positions [B x K] whose logits are wanted.
at::Tensor wanted_positions(const nn::Bundle& in, const nn::Context& context) {
  const int64_t B = in.at("hidden").size(0), T = in.at("hidden").size(1);
  const auto& batch = context.batch(in);
  const auto row_start = at::arange(B, at::kLong).unsqueeze(1) * T;
  if (in.contains("logits_to_keep")) {
    const auto asked = comm::item<int64_t>(batch.at("logits_to_keep"));
    const int64_t K = asked == 0 ? T : std::clamp<int64_t>(asked, 1, T);
    return (row_start + at::arange(T - K, T)).view({-1});
  }
  if (!in.contains("key_mask")) return row_start.view({-1}) + (T - 1);
  const auto last = (comm::download(batch.at("key_mask")) * at::arange(T)).amax(1);
  return row_start.view({-1}) + last;
}

class CausalHead : public TextBlock {
 public:
  explicit CausalHead(const CausalHeadOptions& options)
      : TextBlock("head"),
        epsilon_(options.epsilon),
        divisor_(options.logits_divisor),
        cap_(options.logits_cap),
        balancing_(options.balancing),
        experts_per_token_(options.experts_per_token),
        factor_(options.one_more ? nn::RmsFactor::OneMore : nn::RmsFactor::Weight),
        targets_(options.targets) {
    const auto& shape = options.table->spec().shape;
    if (!options.norm.empty() && options.norm_has_bias) {
      norm_ = declare_norm(options.norm, shape[1]);
    } else if (!options.norm.empty()) {
      const auto init = options.one_more ? nn::Init::zeros() : nn::Init::ones();
      norm_.weight = declare_vector(options.norm + ".weight", shape[1], init);
    }
    const auto init = nn::Init::normal(options.initializer_range);
    table_ = options.tied ? tie(options.table) : declare_matrix("lm_head.weight", shape, init, {0});
  }

  nn::Bundle forward(const nn::Bundle& in, const nn::Context& context) override {
    const auto& x = in.at("hidden");
    if (context.mode == nn::Mode::Predict) {
      const auto wanted = comm::upload(wanted_positions(in, context), x.device());
      auto h = states(x.reshape({-1, x.size(-1)}).index_select(0, wanted), nn::ReadBy::Anything);
      auto here = nn::product_of_rows(h.to(at::kFloat), table_->value().t());
      if (cap_ != 0) here = nn::capped(here, cap_);
      const auto logits = nn::gather_columns(here, table_, 0, context.tensor);
      return {{"logits", logits.view({x.size(0), -1, num_ids()})}};
    }
    const auto& targets = in.at("targets");
    const auto ranks = ranks_of(in, context);
    nn::CrossEntropyOptions options{.first_id = 0};
    std::function<at::Tensor()> again;
    if (targets_) again = [&] { return targets_(context.batch(in), context); };
    options.ranks = among_asked(ranks, in.at("asked"), again);
    options.count_correct = context.mode == nn::Mode::Evaluate;
    options.cap = cap_;
    const auto asked = ranks.select(x, in.at("asked"), options.ranks);
    const auto h = states(asked, nn::ReadBy::Products);
    if (preference_) return loss_of_pairs(h, in, context, options);
    at::Tensor smoothing;
    if (smoothing_ > 0 && context.mode == nn::Mode::Train) {
      smoothing =
          nn::label_smoothing(h, table_, targets, {.share = smoothing_, .first_id = 0}, context);
    }
    const auto entropy = nn::cross_entropy(h, table_, targets, options);
    nn::Bundle out{{"loss", smoothing.defined() ? entropy.loss + smoothing : entropy.loss},
                   {"count", at::scalar_tensor(targets.numel(), at::kLong)}};
    if (options.count_correct) out["correct"] = entropy.correct;
    if (experts_per_token_ > 0) add_experts(in.at(kRoutingSums), targets.numel(), out);
    return out;
  }

  std::vector<std::string> metrics() const override {
    if (preference_) return nn::preference_metrics();
    if (experts_per_token_ > 0) return {"busiest_expert", "idlest_expert"};
    return {};
  }
  void learn_preferences(const nn::PreferenceOptions& options) {
    if (balancing_ > 0) {
      fail<UsageError>("models",
                       "a loss of preferences does not balance experts; try output_router_logits = "
                       "false");
    }
    preference_ = options;
  }
  void smooth_labels(double share) {
    if (cap_ != 0) {
      fail<UsageError>("models",
                       "label_smoothing_factor = {} needs the mean of all scores, which this "
                       "model caps by final_logit_softcapping = {}; try 0",
                       share, cap_);
    }
    smoothing_ = share;
  }

 private:
  nn::Bundle loss_of_pairs(const at::Tensor& h, const nn::Bundle& in, const nn::Context& context,
                           nn::CrossEntropyOptions scores) const {
    scores.count_correct = false;
    const auto pairs = pairs_of(in, context);
    auto loss = nn::preference_loss(h, table_, in.at("targets"), pairs, *preference_, scores);
    nn::Bundle out{{"loss", loss.loss},
                   {"count", at::scalar_tensor(pairs.reference.size(0), at::kLong)},
                   {"metrics", loss.metrics}};
    if (context.mode == nn::Mode::Evaluate) out["log_probs"] = loss.log_probs;
    return out;
  }

  /// Pairs of the targets that put_targets() found, without a wait for a GPU.
  nn::PreferencePairs pairs_of(const nn::Bundle& in, const nn::Context& context) const {
    const auto& batch = context.batch(in);
    const auto documents = nn::documents_of(batch);
    if (!documents.defined()) {
      fail<UsageError>("models", "the model learns preferences, and the batch has no 'documents'");
    }
    const auto device = in.at("hidden").device();
    const auto asked =
        targets_ ? asked_of(targets_(batch, context)) : comm::download(in.at("asked"));
    const auto numbers = comm::download(documents).view({-1}).index_select(0, asked);
    const auto given = batch.find(nn::kReferenceLogProbs);
    const auto reference =
        given != batch.end() ? given->second : at::zeros({documents.size(0), 2}, at::kDouble);
    return {comm::upload(2 * asked.div(documents.size(1), "floor") + numbers, device),
            comm::upload(reference, device)};
  }

  /// Adds the loss that balances experts, and the busiest and the idlest expert's share of the
  /// tokens, for so many targets.
  void add_experts(const at::Tensor& sums, int64_t num_targets, nn::Bundle& out) const {
    const auto targets = static_cast<double>(num_targets);
    if (balancing_ > 0) {
      const auto balance = nn::balancing_loss(sums, experts_per_token_);
      out["loss"] = out["loss"] + balance * (balancing_ * targets);
    }
    const auto shares = (sums[0] / sums[0].sum().clamp_min(1)).detach().to(at::kDouble);
    out["metrics"] = at::stack({shares.max(), shares.min()}) * targets;
  }

  int64_t num_ids() const { return table_->spec().shape[0]; }

  /// Final hidden states, whose products with the output matrix are logits.
  at::Tensor states(const at::Tensor& h, nn::ReadBy reader) const {
    if (!norm_.weight) return h;
    const auto out = norm_.bias ? nn::layer_norm(h, norm_, epsilon_, reader)
                                : nn::rms_norm(h, norm_.weight, epsilon_, reader, factor_);
    return divisor_ == 1 ? out : out / divisor_;
  }

  double epsilon_, divisor_, cap_, balancing_;
  int64_t experts_per_token_;
  nn::RmsFactor factor_;
  std::function<at::Tensor(const nn::Bundle& batch, const nn::Context& context)> targets_;
  std::optional<nn::PreferenceOptions> preference_;
  double smoothing_ = 0;
  nn::NormParams norm_;
  nn::ParamPtr table_;
};

CausalHead& head_of(const nn::BlockList& blocks, const char* lack) {
  if (auto* head = dynamic_cast<CausalHead*>(blocks.back().get())) return *head;
  fail<UsageError>("models",
                   "the model's last block {} {}; expected a causal head, as GPT-2 and Llama have",
                   blocks.back()->name(), lack);
}

}  // namespace

std::function<at::Tensor(const nn::Bundle& batch, const nn::Context& context)> causal_targets_of(
    int64_t num_ids) {
  return [num_ids](const nn::Bundle& batch, const nn::Context&) {
    return causal_targets(batch, num_ids);
  };
}

nn::BlockPtr make_causal_head(const CausalHeadOptions& options) {
  return std::make_shared<CausalHead>(options);
}

void learn_preferences(const nn::BlockList& blocks, const nn::PreferenceOptions& options) {
  head_of(blocks, "learns no preferences").learn_preferences(options);
}

void smooth_labels(const nn::BlockList& blocks, double share) {
  head_of(blocks, "smooths no labels").smooth_labels(share);
}

}  // namespace convoy::models
