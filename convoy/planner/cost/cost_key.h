#pragma once

#include <set>
#include <string>
#include <vector>

#include "convoy/nn/deferred_weight_grads.h"

namespace convoy::planner {

/// Key that is equal for blocks that cost the same: of one type, size and Block::cost_key(), with
/// inputs of one kind and size. `shared`: parameters that several blocks read. Of parameters that
/// are cut, this rank's part counts.
std::string cost_key(const nn::Block& block, const nn::Bundle& in,
                     const std::set<const nn::Param*>& shared);

/// Whether a bundle has that very tensor by that name.
bool holds(const nn::Bundle& bundle, const std::string& name, const at::Tensor& tensor);

/// Returns the bundle with tensors of its own: copies of those that take a gradient, or all `but`
/// some.
nn::Bundle with_copies(const nn::Bundle& bundle, const nn::Bundle* but = nullptr);

/// Roots of a backward: outputs of a block that take a gradient, each with a gradient of ones.
struct Roots {
  explicit Roots(const nn::Bundle& out);
  void backward() const;

  std::vector<at::Tensor> tensors, grads;
};

}  // namespace convoy::planner
