#pragma once

#include <functional>
#include <set>
#include <vector>

#include "convoy/nn/block.h"

namespace convoy::nn {

/// Products of weights' gradients that a backward has left for later.
using DeferredWrites = std::vector<std::function<void()>>;

/// Parameters that more than one block reads.
std::set<const Param*> read_by_several(const BlockList& blocks);

/// Guard: while it lives, products for the gradients of a block's weights go into `later`. Products
/// for parameters that other blocks read, too (`shared`), are computed at once.
class DeferredWeightGrads {
 public:
  DeferredWeightGrads(const Block& block, const std::set<const Param*>& shared,
                      DeferredWrites& later);
  ~DeferredWeightGrads();
  DeferredWeightGrads(const DeferredWeightGrads&) = delete;
  DeferredWeightGrads& operator=(const DeferredWeightGrads&) = delete;

 private:
  const Block& block_;
};

}  // namespace convoy::nn
