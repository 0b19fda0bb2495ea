#include "convoy/nn/layers/weight_grad.h"

#include <ATen/ATen.h>

#include "convoy/nn/product.h"

namespace convoy::nn {

void write_weight_grad(at::Tensor& grad, const at::Tensor& input, const at::Tensor& g,
                       bool in_first, bool adds, const std::vector<Columns>& shared) {
  if (shared.empty()) {
    if (in_first) {
      product_into(grad, input.t(), g, adds);
    } else {
      product_into(grad, g.t(), input, adds);
    }
    return;
  }
  for (const auto& [begin, size] : shared) {
    auto place = grad.narrow(in_first ? 1 : 0, begin, size);
    auto product = at::empty(place.sizes(), place.options());
    write_weight_grad(product, input, g.narrow(1, begin, size).contiguous(), in_first,
                      /*adds=*/false, {});
    if (adds) {
      place.add_(product);
    } else {
      place.copy_(product);
    }
  }
}

at::Tensor column_sums(const at::Tensor& g, const std::vector<Columns>& shared) {
  if (shared.empty()) return g.sum(0, false, at::kFloat);
  std::vector<at::Tensor> sums;
  for (const auto& [begin, size] : shared) {
    sums.push_back(g.narrow(1, begin, size).contiguous().sum(0, false, at::kFloat));
  }
  return at::cat(sums);
}

}  // namespace convoy::nn
