#include "convoy/models/session/event_weights.h"

#include <ATen/ATen.h>

#include "convoy/comm/device.h"

namespace convoy::models {

at::Tensor event_weights(const EventWeights& weights, const nn::Bundle& batch) {
  const auto& values = batch.at(weights.column);
  if (weights.of_values.empty()) return values.to(at::kFloat);
  const auto by_id = comm::upload(at::tensor(weights.of_values, at::kFloat), values.device());
  return by_id.index_select(0, values.reshape({-1})).view(values.sizes());
}

at::Tensor targets_of_rows(int64_t num_rows, const at::Tensor& rows, const at::Tensor& weights) {
  const auto counted = weights.defined() ? weights : at::ones_like(rows);
  return at::zeros({num_rows}, counted.options()).index_add_(0, rows, counted);
}

}  // namespace convoy::models
