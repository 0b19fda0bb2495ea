#pragma once

#include <functional>
#include <set>
#include <vector>

#include "convoy/nn/block.h"

namespace convoy::nn {

/// Products of weights' gradients that a backward has left for later.
using PutOffWrites = std::vector<std::function<void()>>;

/// Parameters that more than one block reads.
std::set<const Param*> read_by_several(const BlockList& blocks);

/// While it lives, products of the gradients of a block's weights go into `later`; those of
/// parameters that other blocks read, too (`shared`), are done at once.
class PutOff {
 public:
  PutOff(const Block& block, const std::set<const Param*>& shared, PutOffWrites& later);
  ~PutOff();
  PutOff(const PutOff&) = delete;
  PutOff& operator=(const PutOff&) = delete;

 private:
  const Block& block_;
};

}  // namespace convoy::nn
