#include "convoy/nn/losses/label_smoothing.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "convoy/nn/layers/add_to_table.h"
#include "convoy/nn/layers/layers.h"
#include "convoy/nn/node.h"
#include "convoy/nn/tensor_parallel/tensor_ranks.h"

namespace convoy::nn {

namespace {

/// Rows of `table`, or of its gradient, that this rank holds of the ids first_id..V-1.
at::Tensor scored(const at::Tensor& rows, const ParamPtr& table, int64_t first_id) {
  const int64_t begin = std::clamp<int64_t>(first_id - table->begin(), 0, rows.size(0));
  return rows.narrow(0, begin, rows.size(0) - begin);
}

at::Tensor mean_row(const ParamPtr& table, int64_t first_id, int64_t num_ids,
                    const comm::Group& tensor) {
  auto sum = scored(table->value(), table, first_id).sum(0, false, at::kFloat);
  if (is_cut(table, 0, tensor)) {
    tensor.all_reduce(sum, comm::ReduceOp::Sum, label_of("mean of", table));
  }
  return sum.div_(static_cast<double>(num_ids));
}

}  // namespace

at::Tensor label_smoothing(const at::Tensor& h, const ParamPtr& table, const at::Tensor& targets,
                           const SmoothingOptions& options, const Context& context) {
  const auto& tensor = context.tensor;
  const int64_t num_ids = table->spec().shape[0] - options.first_id;
  const double factor = options.share / options.temperature;
  auto states = h.detach().to(at::kFloat);
  at::Tensor loss, direction;
  without_grad([&] {
    direction = embedding(targets, table, /*padding=*/false, tensor);
    direction = direction - mean_row(table, options.first_id, num_ids, tensor);
    auto products = states * direction;
    if (options.weights.defined()) {
      const auto weights = options.weights.unsqueeze(1);
      products.mul_(weights);
      direction.mul_(weights);
      states = states * weights;  // the table's gradient is a sum over rows
    }
    loss = products.sum().mul_(factor);
    return loss;
  });
  if (!at::GradMode::is_enabled()) return loss;
  return with_backward(loss, {h}, [=](const at::Tensor& grad) -> std::vector<at::Tensor> {
    const auto scale = grad.to(at::kFloat) * factor;
    add_to_table(table, targets, states * scale, tensor);
    const auto of_all = states.sum(0).mul_(scale / static_cast<double>(num_ids));
    table->add_to_grad([&](at::Tensor& to) { scored(to, table, options.first_id).sub_(of_all); });
    return {(direction * scale).to(h.scalar_type())};
  });
}

}  // namespace convoy::nn
