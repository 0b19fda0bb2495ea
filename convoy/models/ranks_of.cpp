#include "convoy/models/ranks_of.h"

#include "convoy/models/language_model.h"

namespace convoy::models {

nn::TensorRanks ranks_of(const at::Tensor& ids, const nn::Context& context) {
  const bool shares = context.sequence_parallel || context.context.size() > 1;
  if (!shares || context.mode == nn::Mode::Predict) return context.tensor;
  return {context.tensor, ids.size(0), nn::ContextRanks(context.context, ids.size(1)),
          context.sequence_parallel};
}

nn::TensorRanks ranks_of(const nn::Bundle& in, const nn::Context& context) {
  const auto ids = in.find("input_ids");
  const auto found = ids != in.end() ? ids : in.find("item_ids");
  return found != in.end() ? ranks_of(found->second, context) : context.tensor;
}

nn::TensorRanks among_asked(const nn::TensorRanks& ranks, const at::Tensor& asked,
                            const std::function<at::Tensor()>& targets) {
  if (!ranks.shares()) return ranks;
  if (asked.is_cpu() || !targets) return ranks.among(asked);
  return ranks.among(asked_of(ranks.positions().own(targets())));
}

}  // namespace convoy::models
