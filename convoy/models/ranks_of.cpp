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
  if (asked.is_cpu()) return ranks.among(asked);
  return ranks.among(asked_of(ranks.positions().own(targets())));
}

nn::WantedTokens asked_tokens(const nn::Bundle& in, const nn::TensorRanks& ranks) {
  const auto asked = in.find("asked");
  if (asked == in.end() || ranks.positions().shares()) return nn::WantedTokens(ranks);
  const auto& all = in.at("hidden");
  return ranks.shares() ? nn::WantedTokens(ranks, asked->second, ranks.rows(), ranks.length())
                        : nn::WantedTokens(ranks, asked->second, all.size(0), all.size(1));
}

}  // namespace convoy::models
