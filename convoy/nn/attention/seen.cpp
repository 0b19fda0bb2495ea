#include "convoy/nn/attention/seen.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

namespace convoy::nn {

namespace {

/// Flags [n, S] of the key at each query's own position, of which the first is `own`.
at::Tensor own_keys(int64_t n, int64_t S, int64_t own, const at::TensorOptions& flags) {
  auto out = at::zeros({n, S}, flags);
  out.diagonal(own).fill_(true);
  return out;
}

}  // namespace

KeyStretch keys_seen(const AttentionOptions& options, int64_t first, int64_t n, int64_t S) {
  const int64_t end = options.causal ? first + n : S;
  const int64_t begin =
      is_windowed(options, S) ? std::max<int64_t>(0, first - options.window + 1) : 0;
  return {begin, end - begin};
}

void hide_unseen(at::Tensor& scores, const AttentionOptions& options, const at::Tensor& key_mask,
                 int64_t first, const KeyStretch& keys) {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  const int64_t n = scores.size(2), S = keys.size;
  const int64_t own = first - keys.begin;  // the first query's key in the stretch
  const auto flags = scores.options().dtype(at::kBool);
  if (key_mask.defined()) {
    auto hidden = key_mask.unsqueeze(1).unsqueeze(1).logical_not();
    if (options.causal) {
      hidden = hidden.logical_and(own_keys(n, S, own, flags).logical_not());
    }
    scores.masked_fill_(hidden, kNever);
  }
  if (options.causal) {
    auto future = at::ones({n, n}, flags).triu(1);
    auto last = scores.narrow(3, own, n);
    last.masked_fill_(future, kNever);
  }
  if (options.window > 0 && S > options.window) {
    scores.masked_fill_(at::ones({n, S}, flags).tril(own - options.window), kNever);
  }
}

std::optional<at::Tensor> visible(const AttentionOptions& options, const at::Tensor& q,
                                  const at::Tensor& k) {
  const int64_t T = q.size(2), S = k.size(2);
  std::optional<at::Tensor> seen;
  if (options.key_mask.defined()) seen = options.key_mask.unsqueeze(1).unsqueeze(1);
  if (!options.causal || T == 1) return seen;
  if (!seen && T == S && !options.bias.defined()) return seen;
  const auto flags = k.options().dtype(at::kBool);
  auto past = at::ones({T, S}, flags).tril(S - T);
  if (!seen) return past.unsqueeze(0).unsqueeze(0);
  return seen->logical_and(past).logical_or(own_keys(T, S, S - T, flags));
}

}  // namespace convoy::nn
