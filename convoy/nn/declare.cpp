#include "convoy/nn/declare.h"

#include <map>

#include "convoy/base/error.h"

namespace convoy::nn {

std::vector<ParamPtr> params_of(const BlockList& blocks) {
  std::vector<ParamPtr> out;
  std::map<const Param*, size_t> known;
  if (blocks.empty()) fail<UsageError>("models", "the model has no blocks; got an empty list");
  for (const auto& block : blocks) {
    if (!block) fail<UsageError>("models", "a block of the model is null");
    for (const auto& param : block->params()) {
      if (known.emplace(param.get(), out.size()).second) out.push_back(param);
    }
  }
  return out;
}

parallel::ModelDecl declare(const BlockList& blocks) {
  parallel::ModelDecl out;
  std::map<const Param*, int64_t> index;
  for (const auto& param : params_of(blocks)) {
    const auto& spec = param->spec();
    index[param.get()] = static_cast<int64_t>(out.params.size());
    out.params.push_back({spec.name, spec.shape, spec.cut, spec.decay, spec.trainable,
                          spec.read_in_backward, param->leaf().defined(), spec.row_reads});
  }
  for (const auto& block : blocks) {
    auto& declared = out.blocks.emplace_back();
    declared.name = block->name();
    declared.repeatable = block->repeatable();
    declared.takes_tensor_ranks = block->takes_tensor_ranks();
    declared.takes_sequence_parallel = block->takes_sequence_parallel();
    declared.takes_context_ranks = block->takes_context_ranks();
    declared.experts_per_token = block->experts_per_token();
    for (const auto& param : block->params()) declared.params.push_back(index.at(param.get()));
  }
  return out;
}

}  // namespace convoy::nn
