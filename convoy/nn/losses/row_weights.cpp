#include "convoy/nn/losses/row_weights.h"

#include <ATen/ATen.h>

#include "convoy/base/error.h"

namespace convoy::nn {

void check_weights(const CrossEntropyOptions& options) {
  internal_check(!options.weights.defined() || !options.bias, "nn",
                 "the gradient of a bias knows no weights of rows");
}

void add_losses(const at::Tensor& losses, const CrossEntropyOptions& options, int64_t begin,
                CrossEntropy& out) {
  const int64_t count = losses.size(0);
  if (out.losses.defined()) out.losses.narrow(0, begin, count).copy_(losses);
  const auto& weights = options.weights;
  const auto counted = weights.defined() ? losses * weights.narrow(0, begin, count) : losses;
  out.loss += counted.sum().to(at::kFloat);
}

at::Tensor weighted_rows(const at::Tensor& rows, const CrossEntropyOptions& options,
                         int64_t begin) {
  if (!options.weights.defined()) return rows;
  const auto weights = options.weights.narrow(0, begin, rows.size(0)).unsqueeze(1);
  return (rows * weights).to(rows.scalar_type());
}

}  // namespace convoy::nn
