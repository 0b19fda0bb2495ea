#include "convoy/models/decoder/delta_mixer.h"

#include <ATen/ATen.h>

#include <utility>

#include "convoy/nn/attention/kv_cache.h"
#include "convoy/nn/delta/causal_conv.h"
#include "convoy/nn/delta/gated_delta_rule.h"
#include "convoy/nn/layers/activation.h"
#include "convoy/nn/layers/layers.h"

// Shapes: B rows, T positions, D = hidden_size, H heads of values here, V their width, W width of
// the convolution.
namespace convoy::models {

namespace {

using nn::Init;
using parallel::TensorCut;

/// States x with zeros in place of padding, so that it leaves the state of the rule as it was.
at::Tensor without_padding(const at::Tensor& x, const nn::Bundle& in,
                           const nn::TensorRanks& ranks) {
  const auto found = in.find("key_mask");
  if (found == in.end()) return x;
  const int64_t T = ranks.shares() ? ranks.length() : x.size(1);
  if (T == 1) return x;  // a token that was generated
  const auto& mask = found->second;
  return x * ranks.own(mask.narrow(1, mask.size(1) - T, T)).unsqueeze(-1);
}

/// Documents of a batch; empty where each row is one.
std::vector<nn::DocumentPlace> documents_in(const nn::Bundle& batch) {
  const auto documents = nn::documents_of(batch);
  if (!documents.defined()) return {};
  auto places = nn::places_of_documents(documents);
  if (nn::are_whole_rows(places, documents)) places.clear();
  return places;
}

}  // namespace

DeltaMixer::DeltaMixer(const DecoderConfig& config, const std::string& name, const Declare& declare)
    : heads_(config.delta_heads()),
      hidden_(config.hidden_size),
      conv_width_(config.linear_conv_kernel_dim),
      deviation_(config.initializer_range),
      epsilon_(config.row().delta == DeltaLayers::Apart ? 1e-5 : config.rms_norm_eps),
      activation_(config.hidden_act),
      doubles_beta_(config.linear_allow_neg_eigval),
      interleaved_(config.row().delta == DeltaLayers::Interleaved) {
  const bool apart = config.row().delta == DeltaLayers::Apart;
  const int64_t r = heads_.values_of_key(), E = heads_.key_width, V = heads_.value_width;
  const Cuts cuts{{0, {}, E}, {0, {}, r * V}, {0, {}, r}};
  const auto full = name + ".linear_attn.";
  const auto by_head = [&](const char* leaf, Init init, bool decay) {
    nn::ParamSpec spec{full + leaf, {heads_.values}, init};
    spec.decay = decay;
    spec.cut = cuts.by_head;
    return declare(std::move(spec));
  };
  rate_ = by_head("A_log", Init::log_of_uniform(config.linear_a_log_min, config.linear_a_log_max),
                  true);
  const auto steps =
      Init::steps_of_time(config.linear_dt_min, config.linear_dt_max, config.linear_dt_init_floor);
  bias_ = by_head("dt_bias", apart ? steps : Init::ones(), false);
  if (apart) {
    declare_apart(full, cuts, declare);
  } else if (interleaved_) {
    declare_interleaved(full, cuts, declare);
  } else {
    declare_fused(full, cuts, declare);
  }
  nn::ParamSpec norm{full + (apart ? "o_norm.weight" : "norm.weight"), {V}, Init::ones()};
  norm.decay = false;
  norm.cut.partial_grad = true;  // a rank knows what its own heads add
  norm_ = declare(std::move(norm));
  nn::ParamSpec out{full + (apart ? "o_proj.weight" : "out_proj.weight"),
                    {hidden_, heads_.all_values()},
                    Init::normal(deviation_)};
  out.cut = {1, {}, r * V};
  out_ = {declare(std::move(out)), nullptr};
}

TensorCut DeltaMixer::cut_of_columns(const Cuts& cuts) const {
  const int64_t keys = heads_.all_keys(), values = heads_.all_values();
  TensorCut out{0, {keys, keys, values}};
  out.part_granules = {cuts.keys.granule, cuts.keys.granule, cuts.values.granule};
  return out;
}

void DeltaMixer::declare_fused(const std::string& name, const Cuts& cuts, const Declare& declare) {
  const int64_t values = heads_.all_values();
  const auto together = cut_of_columns(cuts);
  declare_conv(name + "conv1d.weight", heads_.columns(), together, declare);
  declare_matrix(name + "in_proj_qkv.weight", heads_.columns(), together, declare);
  declare_matrix(name + "in_proj_z.weight", values, cuts.values, declare);
  declare_matrix(name + "in_proj_b.weight", heads_.values, cuts.by_head, declare);
  declare_matrix(name + "in_proj_a.weight", heads_.values, cuts.by_head, declare);
}

void DeltaMixer::declare_interleaved(const std::string& name, const Cuts& cuts,
                                     const Declare& declare) {
  const int64_t of_head = 2 * (cuts.keys.granule + cuts.values.granule);
  declare_conv(name + "conv1d.weight", heads_.columns(), cut_of_columns(cuts), declare);
  declare_matrix(name + "in_proj_qkvz.weight", heads_.keys * of_head, {0, {}, of_head}, declare);
  declare_matrix(name + "in_proj_ba.weight", 2 * heads_.values, {0, {}, 2 * cuts.by_head.granule},
                 declare);
}

void DeltaMixer::declare_apart(const std::string& name, const Cuts& cuts, const Declare& declare) {
  const int64_t keys = heads_.all_keys(), values = heads_.all_values();
  declare_conv(name + "q_conv1d.weight", keys, cuts.keys, declare);
  declare_conv(name + "k_conv1d.weight", keys, cuts.keys, declare);
  declare_conv(name + "v_conv1d.weight", values, cuts.values, declare);
  declare_matrix(name + "q_proj.weight", keys, cuts.keys, declare);
  declare_matrix(name + "k_proj.weight", keys, cuts.keys, declare);
  declare_matrix(name + "v_proj.weight", values, cuts.values, declare);
  declare_matrix(name + "g_proj.weight", values, cuts.values, declare);
  declare_matrix(name + "b_proj.weight", heads_.values, cuts.by_head, declare);
  declare_matrix(name + "a_proj.weight", heads_.values, cuts.by_head, declare);
}

void DeltaMixer::declare_matrix(const std::string& name, int64_t out, const TensorCut& cut,
                                const Declare& declare) {
  nn::ParamSpec spec{name, {out, hidden_}, Init::normal(deviation_)};
  spec.cut = cut;
  inputs_.push_back({declare(std::move(spec)), nullptr});
}

void DeltaMixer::declare_conv(const std::string& name, int64_t channels, const TensorCut& cut,
                              const Declare& declare) {
  nn::ParamSpec spec{name, {channels, 1, conv_width_}, Init::normal(deviation_)};
  spec.cut = cut;
  convs_.push_back(declare(std::move(spec)));
}

nn::DeltaHeads DeltaMixer::heads_here() const {
  auto out = heads_;
  out.values = rate_->shape()[0];
  out.keys = out.values / heads_.values_of_key();
  return out;
}

std::vector<at::Tensor> DeltaMixer::by_kind(const std::vector<at::Tensor>& given) const {
  if (!interleaved_) return given;
  const int64_t r = heads_.values_of_key(), E = heads_.key_width, V = heads_.value_width;
  const auto parts_of = [&](const at::Tensor& x, at::IntArrayRef widths) {
    auto parts = x.unflatten(2, {heads_here().keys, -1}).split_with_sizes(widths, 3);
    for (auto& part : parts) part = part.flatten(2);
    return parts;
  };
  const auto wide = parts_of(given[0], {E, E, r * V, r * V});
  const auto narrow = parts_of(given[1], {r, r});
  return {at::cat({wide[0], wide[1], wide[2]}, 2), wide[3], narrow[0], narrow[1]};
}

at::Tensor DeltaMixer::convolved(const std::vector<at::Tensor>& given,
                                 const std::vector<nn::DocumentPlace>& documents,
                                 const nn::Context& context) const {
  std::vector<at::Tensor> tails(convs_.size()), out;
  if (context.cache != nullptr) {
    auto& kept = context.cache->recurrence(context.block).tail;
    std::vector<int64_t> channels;
    for (size_t i = 0; i < convs_.size(); ++i) channels.push_back(given[i].size(2));
    const std::vector<at::Tensor> read(given.begin(), given.begin() + std::ssize(convs_));
    auto all = at::cat(read, 2);
    const int64_t B = all.size(0), before = conv_width_ - 1;
    if (!kept.defined()) kept = at::zeros({B, before, all.size(2)}, all.options());
    tails = kept.split_with_sizes(channels, 2);
    all = at::cat(std::vector{kept, all}, 1);
    kept = all.narrow(1, all.size(1) - before, before).clone();
  }
  for (size_t i = 0; i < convs_.size(); ++i) {
    const auto sums = nn::causal_conv(given[i], convs_[i], documents, tails[i]);
    out.push_back(nn::activate(activation_, sums));
  }
  return out.size() == 1 ? out.front() : at::cat(out, 2);
}

at::Tensor DeltaMixer::forward(const at::Tensor& x, const nn::Bundle& in,
                               const nn::TensorRanks& ranks, const nn::Context& context) const {
  const auto read = nn::to_columns(without_padding(x, in, ranks), inputs_.front().weight, ranks);
  const auto given = by_kind(nn::linears(read, inputs_, ranks));
  nn::DeltaOptions options;
  options.heads = heads_here();
  options.documents = documents_in(context.batch(in));
  if (context.cache != nullptr) options.state = &context.cache->recurrence(context.block).state;
  const auto mixed = convolved(given, options.documents, context);
  const auto& gate = given[convs_.size()];
  auto beta = given[convs_.size() + 1].to(at::kFloat).sigmoid();
  if (doubles_beta_) beta = beta * 2;
  const auto decay = nn::delta_decay(given[convs_.size() + 2], rate_, bias_);
  const auto heard = nn::gated_delta_rule(mixed, decay, beta, options);
  const auto normed = nn::rms_norm(heard, norm_, epsilon_, nn::ReadBy::Products);
  const auto gated =
      nn::activate("silu", gate.reshape(heard.sizes()), normed.to(gate.scalar_type()));
  return nn::linear(gated.flatten(2), out_, ranks);
}

}  // namespace convoy::models
