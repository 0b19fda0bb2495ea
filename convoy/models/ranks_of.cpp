#include "convoy/models/ranks_of.h"

namespace convoy::models {

nn::TensorRanks ranks_of(const at::Tensor& ids, const nn::Context& context) {
  if (!context.sequence_parallel || context.mode == nn::Mode::Predict) return context.tensor;
  return {context.tensor, ids.size(0), ids.size(1)};
}

nn::TensorRanks ranks_of(const nn::Bundle& in, const nn::Context& context) {
  if (!context.sequence_parallel || context.mode == nn::Mode::Predict) return context.tensor;
  const auto ids = in.find("input_ids");
  return ranks_of(ids != in.end() ? ids->second : in.at("item_ids"), context);
}

}  // namespace convoy::models
