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

/// While it lives, products of the gradients of a block's weights go into `later`; those of
/// parameters that other blocks read, too (`shared`), are done at once.
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
