#pragma once

#include <ATen/ATen.h>

#include "convoy/optim/optimizer.h"

// Stretches to be updated.
namespace convoy::optim {

/// As if in the middle of a training: all its numbers are random, second moments positive. Its
/// elements are two parameters' with a gap of seven between, the first from its element 100 on.
inline FlatRange random_stretch(const Optimizer& optimizer, int64_t count,
                                double weight_decay = 0) {
  at::manual_seed(3);
  const int64_t half = count / 2;
  FlatRange out{at::randn({count}), at::randn({count}), {}, {}, weight_decay};
  for (const auto& state : optimizer.states()) {
    const auto values = at::randn({count});
    out.states.push_back((state.name == "exp_avg_sq" ? values.abs() : values).to(state.dtype));
  }
  out.spans = {{"first", 100, 0, half}, {"second", 0, half + 7, count - half - 7}};
  for (const auto& tensor : {out.weights, out.grads}) tensor.narrow(0, half, 7).zero_();
  for (const auto& state : out.states) state.narrow(0, half, 7).zero_();
  return out;
}

/// Elements [begin, end) of a stretch.
inline FlatRange part_of(const FlatRange& from, int64_t begin, int64_t end) {
  const auto part = [&](const at::Tensor& tensor) {
    return tensor.defined() ? tensor.slice(0, begin, end) : tensor;
  };
  FlatRange out{part(from.weights), part(from.grads), {}, part(from.rounded), from.weight_decay};
  for (const auto& state : from.states) out.states.push_back(part(state));
  for (const auto& span : from.spans) {
    const int64_t first = std::max(begin, span.place);
    const int64_t last = std::min(end, span.place + span.length);
    if (first >= last) continue;
    out.spans.push_back(
        {span.parameter, span.begin + first - span.place, first - begin, last - first});
  }
  return out;
}

inline FlatRange copy_of(const FlatRange& from) {
  FlatRange out{from.weights.clone(), from.grads.clone(), {}, {}, from.weight_decay, from.spans};
  for (const auto& state : from.states) out.states.push_back(state.clone());
  if (from.rounded.defined()) out.rounded = from.rounded.clone();
  return out;
}

inline bool near(const at::Tensor& a, const at::Tensor& b) {
  return at::allclose(a.to(at::kDouble), b.to(at::kDouble), 1e-6, 1e-6);
}

}  // namespace convoy::optim
