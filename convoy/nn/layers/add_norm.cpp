#include "convoy/nn/layers/add_norm.h"

#include <ATen/ATen.h>

#include <optional>

#include "convoy/nn/layers/add_norm_kernel.h"
#include "convoy/nn/layers/dropout.h"
#include "convoy/nn/node.h"
#include "convoy/nn/product.h"

namespace convoy::nn {

namespace {

at::Tensor normed(const at::Tensor& x, const RowNorm& norm) {
  const auto& [params, epsilon, reader, factor] = norm;
  if (params.bias) return layer_norm(x, params, epsilon, reader);
  return rms_norm(x, params.weight, epsilon, reader, factor);
}

/// Adds sums [blocks, 1 or 2, D] to the gradients of the weight and of the bias.
void add_param_grads(const NormParams& params, const at::Tensor& sums) {
  std::vector<ParamPtr> all{params.weight};
  if (params.bias) all.push_back(params.bias);
  const auto rows = sums.flatten(1);
  add_grads(all, at::kFloat, [=](at::Tensor& to, bool adds) {
    auto flat = to.view({-1});
    sum_rows_into(flat, rows, adds);
  });
}

bool trains(const NormParams& params) {
  return params.weight->spec().trainable && (!params.bias || params.bias->spec().trainable);
}

bool frozen(const NormParams& params) {
  return !params.weight->spec().trainable && (!params.bias || !params.bias->spec().trainable);
}

/// Result by one kernel; nothing where it cannot be used.
std::optional<NormedStates> normed_at_once(const at::Tensor& x, const at::Tensor& added,
                                           const RowNorm& norm) {
  const auto& [params, epsilon, reader, factor] = norm;
  if (!x.is_cuda() || !params.weight || !(trains(params) || frozen(params))) return std::nullopt;
  const bool narrow =
      reader == ReadBy::Products && params.weight->value().scalar_type() == at::kBFloat16;
  AddNorm given{x.detach(), added.defined() ? added.detach() : added};
  given.weight = params.weight->value().detach();
  if (params.bias) given.bias = params.bias->value().detach();
  given.epsilon = epsilon;
  given.one_more = factor == RmsFactor::OneMore;
  given.rows = narrow ? at::kBFloat16 : at::kFloat;
  const auto made = without_grad([&] { return add_norm_by_kernel(given); });
  if (!made) return std::nullopt;

  AddNormBack kept;
  kept.states = made->states.detach();
  kept.stats = made->stats;
  kept.layer = static_cast<bool>(params.bias);
  kept.one_more = given.one_more;
  if (added.defined()) kept.added = added.scalar_type();
  kept.of_params = trains(params);
  std::vector<at::Tensor> inputs{x};
  if (added.defined()) inputs.push_back(added);
  const auto backward =
      [kept, params = params](const std::vector<at::Tensor>& grads) -> std::vector<at::Tensor> {
    auto given = kept;
    given.state_grads = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    if (!grads[1].defined()) {  // nobody read the rows
      if (!kept.added) return {given.state_grads};
      return {given.state_grads, given.state_grads.to(*kept.added)};
    }
    given.row_grads = grads[1].contiguous();
    given.weight = params.weight->value().detach();
    const auto out = add_norm_back_by_kernel(given);
    if (kept.of_params) add_param_grads(params, out.sums);
    if (!kept.added) return {out.x};
    return {out.x, out.added};
  };
  // Without `added` the states are x, but another tensor: this operation's result.
  const auto states = added.defined() ? made->states : made->states.detach();
  const auto out = with_backward_of_all({states, made->rows}, inputs, backward);
  return NormedStates{out[0], out[1]};
}

}  // namespace

NormedStates add_norm(const at::Tensor& x, const at::Tensor& added, const RowNorm& norm) {
  if (auto out = normed_at_once(x, added, norm)) return *out;
  const auto states = added.defined() ? x + added : x;
  return {states, normed(states, norm)};
}

NormedStates add_dropped_norm(const at::Tensor& x, const at::Tensor& added, const RowNorm& norm,
                              double rate, const Context& context, int64_t site,
                              const TensorRanks& ranks) {
  const bool drops = rate != 0 && context.mode == Mode::Train;
  if (!drops) return add_norm(x, added, norm);
  return with_norm(add_dropped(x, added, rate, context, site, ranks), norm);
}

}  // namespace convoy::nn
