#include "convoy/nn/soft_cap.h"

#include <ATen/ATen.h>

namespace convoy::nn {

at::Tensor& cap_scores(at::Tensor& scores, double cap) {
  return scores.div_(cap).tanh_().mul_(cap);
}

at::Tensor slope_of_cap(const at::Tensor& capped, double cap) {
  const auto part = capped.to(at::kFloat) / cap;
  return 1 - part * part;
}

at::Tensor capped(const at::Tensor& scores, double cap) {
  auto out = scores.detach().clone();
  return cap_scores(out, cap);
}

}  // namespace convoy::nn
