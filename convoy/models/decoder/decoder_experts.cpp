#include "convoy/models/decoder/decoder_experts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "convoy/models/causal_head.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/node.h"

// Shapes: B rows, T positions, D = hidden_size, F width of an expert, E experts.
namespace convoy::models {

namespace {

/// Tokens of a bundle that are no padding, [B, T]; undefined where all are real.
at::Tensor real_tokens(const nn::Bundle& bundle) {
  if (const auto mask = bundle.find("key_mask"); mask != bundle.end()) return mask->second;
  const auto documents = bundle.find("documents");
  return documents == bundle.end() ? at::Tensor() : documents->second >= 0;
}

/// Sum over tensor ranks that share out tokens. Each computes the same with it, so the gradient is
/// the sum's on each.
at::Tensor summed_over_tokens(const at::Tensor& x, const nn::TensorRanks& ranks,
                              const std::string& label) {
  if (!ranks.shares()) return x;
  auto sum = nn::without_grad([&] { return x.detach().clone(); });
  ranks.group().all_reduce(sum, comm::ReduceOp::Sum, label);
  return nn::with_backward(sum, {x},
                           [](const at::Tensor& grad) { return std::vector<at::Tensor>{grad}; });
}

}  // namespace

DecoderExperts::DecoderExperts(const DecoderConfig& config, const Declare& declare)
    : activation_(config.hidden_act),
      num_chosen_(config.num_experts_per_tok),
      weights_(config.norm_topk_prob || config.row().experts->weights_sum_to_one
                   ? nn::RoutingWeights::OfSumOne
                   : nn::RoutingWeights::AsTheyAre) {
  const auto& names = *config.row().experts;
  const auto router = fmt::format("{}.{}", names.module, names.router);
  router_.weight = declare(router + ".weight", {config.num_experts, config.hidden_size}, {});
  if (names.stacked) {
    router_.bias = declare(router + ".bias", {config.num_experts}, {});
    declare_stacks(config, declare);
  } else {
    declare_each(config, declare);
  }
}

void DecoderExperts::declare_stacks(const DecoderConfig& config, const Declare& declare) {
  const int64_t E = config.num_experts, D = config.hidden_size, F = config.expert_width();
  const auto name = std::string(config.row().experts->module) + ".experts.";
  const parallel::ExpertRange all{.first = 0, .count = E, .of = E};
  // Gate and up stay together.
  stacks_.gate_up =
      declare(name + "gate_up_proj", {E, D, 2 * F}, {.dim = 2, .granule = 2, .experts = all});
  stacks_.gate_up_bias =
      declare(name + "gate_up_proj_bias", {E, 2 * F}, {.dim = 1, .granule = 2, .experts = all});
  stacks_.down = declare(name + "down_proj", {E, F, D}, {.dim = 1, .experts = all});
  stacks_.down_bias = declare(name + "down_proj_bias", {E, D}, {.experts = all});
  stacks_.slope = config.swiglu_alpha;
  stacks_.limit = config.swiglu_limit;
}

void DecoderExperts::declare_each(const DecoderConfig& config, const Declare& declare) {
  const auto& names = *config.row().experts;
  const int64_t D = config.hidden_size, F = config.expert_width();
  // Matrices of one kind lie side by side.
  const auto declare_all = [&](const std::vector<std::string>& modules, int64_t width, bool dealt) {
    std::vector<nn::ExpertParams> out(modules.size());
    const auto cut = [&](int64_t dim, size_t e) {
      parallel::TensorCut of_one{.dim = dim};
      if (dealt) of_one.experts = {static_cast<int64_t>(e), 1, std::ssize(modules)};
      return of_one;
    };
    for (size_t e = 0; e < modules.size(); ++e) {
      const auto in = [&](const char* leaf) {
        return declare(fmt::format("{}.{}.weight", modules[e], leaf), {width, D}, cut(0, e));
      };
      out[e].gate = in(names.gate);
      out[e].up = in(names.up);
    }
    for (size_t e = 0; e < modules.size(); ++e) {
      out[e].down =
          declare(fmt::format("{}.{}.weight", modules[e], names.down), {D, width}, cut(1, e));
    }
    return out;
  };
  std::vector<std::string> modules;
  for (int64_t e = 0; e < config.num_experts; ++e) {
    modules.push_back(fmt::format("{}.experts.{}", names.module, e));
  }
  experts_ = declare_all(modules, F, /*dealt=*/true);
  if (!names.shared) return;
  const auto shared = fmt::format("{}.shared_expert", names.module);
  const int64_t width = config.shared_expert_intermediate_size;
  shared_ = declare_all({shared}, width, /*dealt=*/false).front();
  shared_router_ = declare(shared + "_gate.weight", {1, D}, {});
}

void DecoderExperts::add_sums(const nn::Routing& routing, const nn::TensorRanks& ranks,
                              nn::Bundle& out) const {
  const auto before = out.find(kRoutingSums);
  if (before == out.end()) return;
  auto real = real_tokens(out);
  if (real.defined()) real = ranks.own(real).reshape({-1});
  const auto sums = nn::routing_sums(routing, real);
  before->second =
      before->second + summed_over_tokens(sums, ranks, nn::label_of("routing", router_.weight));
}

at::Tensor DecoderExperts::of_experts(const nn::Operand& read, const nn::Routing& routing,
                                      const nn::TensorRanks& ranks,
                                      const nn::ExpertRanks& dealt) const {
  if (experts_.empty()) return nn::experts(read, routing, stacks_, ranks, dealt);
  return nn::experts(read, routing, experts_, activation_, ranks, dealt);
}

at::Tensor DecoderExperts::serve(const nn::Context& context) const {
  const auto& router = router_.weight->shape();  // [E, D]
  const auto like = router_.weight->value().options();
  auto x = at::zeros({0, router[1]}, like);
  if (at::GradMode::is_enabled()) x.requires_grad_(true);
  const nn::Routing routing{.ids = at::zeros({0, num_chosen_}, like.dtype(at::kLong)),
                            .weights = at::zeros({0, num_chosen_}, like.dtype(at::kFloat)),
                            .probs = at::zeros({0, router[0]}, like.dtype(at::kFloat))};
  return of_experts(x, routing, context.tensor, {context.experts, context.expert_joined});
}

at::Tensor DecoderExperts::forward(const at::Tensor& x, const nn::TensorRanks& ranks,
                                   const nn::Context& context, nn::Bundle& out) const {
  const auto logits = nn::linear(x, router_);
  const auto routing = nn::route(logits.reshape({-1, logits.size(-1)}), num_chosen_, weights_);
  add_sums(routing, ranks, out);
  const auto& first = experts_.empty() ? stacks_.gate_up : experts_.front().gate;
  const auto read = nn::to_columns(x, first, ranks);
  const auto sum = of_experts(read, routing, ranks, {context.experts, context.expert_joined});
  if (!shared_router_) return sum;
  const auto inner = nn::linears(read, {{shared_.gate, nullptr}, {shared_.up, nullptr}}, ranks);
  const auto shared = nn::linear(nn::activate(activation_, inner[0], inner[1]),
                                 nn::DenseParams{shared_.down, nullptr}, ranks);
  const auto share = at::sigmoid(nn::linear(x, shared_router_, nullptr, /*in_first=*/false));
  return sum + share * shared;
}

}  // namespace convoy::models
