#include "convoy/nn/deferred_weight_grads.h"

#include <map>

namespace convoy::nn {

std::set<const Param*> read_by_several(const BlockList& blocks) {
  std::set<const Param*> out;
  std::map<const Param*, size_t> first_reader;
  for (size_t b = 0; b < blocks.size(); ++b) {
    for (const auto& param : blocks[b]->params()) {
      if (first_reader.emplace(param.get(), b).first->second != b) out.insert(param.get());
    }
  }
  return out;
}

DeferredWeightGrads::DeferredWeightGrads(const Block& block, const std::set<const Param*>& shared,
                                         DeferredWrites& later)
    : block_(block) {
  for (const auto& param : block.params()) {
    if (!shared.contains(param.get())) param->put_off(&later);
  }
}

DeferredWeightGrads::~DeferredWeightGrads() {
  for (const auto& param : block_.params()) param->put_off(nullptr);
}

}  // namespace convoy::nn
