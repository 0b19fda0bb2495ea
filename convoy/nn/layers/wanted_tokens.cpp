#include "convoy/nn/layers/wanted_tokens.h"

#include <ATen/ATen.h>

#include <utility>

#include "convoy/nn/layers/dropout.h"

namespace convoy::nn {

WantedTokens::WantedTokens(TensorRanks all, const at::Tensor& tokens, int64_t rows, int64_t length)
    : WantedTokens(std::move(all)) {
  // All of them where that costs no more: a GPU waits for the host to launch kernels, and moving
  // nearly all takes as long as computing the rest. And where there are none: kernels need not know
  // products without rows.
  constexpr double kMost = 0.9;
  const auto share = static_cast<double>(tokens.numel()) / static_cast<double>(rows * length);
  if (!tokens.is_cpu() || tokens.numel() == 0 || share > kMost) return;
  length_ = length;
  tokens_ = here_ = places_ = tokens;
  if (!all_.shares()) return;
  ranks_ = all_.among(tokens);
  here_ = ranks_.own(tokens);
  places_ = here_ - all_.begin();
}

at::Tensor WantedTokens::of(const at::Tensor& states) const {
  if (!tokens_.defined()) return states;
  return states.reshape({-1, states.size(-1)}).index_select(0, places_);
}

at::Tensor WantedTokens::of_whole(const at::Tensor& states) const {
  if (!tokens_.defined()) return states;
  return states.reshape({-1, states.size(-1)}).index_select(0, tokens_);
}

at::Tensor WantedTokens::put_back(const at::Tensor& states, const at::Tensor& all) const {
  if (!tokens_.defined()) return states;
  const auto none = at::zeros({all.numel() / all.size(-1), all.size(-1)}, states.options());
  return none.index_copy(0, places_, states).view(all.sizes());
}

at::Tensor WantedTokens::dropout(const at::Tensor& x, double rate, const Context& context,
                                 int64_t site) const {
  if (!tokens_.defined()) return nn::dropout(x, rate, context, site, all_);
  if (rate == 0 || context.mode != Mode::Train) return x;
  const auto mask = mask_of_tokens(here_, length_, x.size(-1), rate, context, site);
  return (x * mask).to(x.scalar_type());
}

at::Tensor WantedTokens::add_dropped(const at::Tensor& x, const at::Tensor& added, double rate,
                                     const Context& context, int64_t site) const {
  if (!tokens_.defined()) return nn::add_dropped(x, added, rate, context, site, all_);
  return x + dropout(added, rate, context, site);
}

NormedStates WantedTokens::add_norm(const at::Tensor& x, const at::Tensor& added, double rate,
                                    const Context& context, int64_t site,
                                    const RowNorm& norm) const {
  if (!tokens_.defined()) return add_dropped_norm(x, added, norm, rate, context, site, all_);
  return nn::add_norm(x, dropout(added, rate, context, site), norm);
}

}  // namespace convoy::nn
