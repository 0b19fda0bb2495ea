#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace convoy::planner {

/// Guard: while it lives, products of matrices in this thread give zeros without multiplying.
/// Shapes, memory and an observer's counts are right. Products that autograd has to know, as those
/// of a user's module, are computed. While nn::ShapesOnly lives, too, operations that write into
/// large floats in place do nothing, and neither does torch's attention.
class SkippedProducts {
 public:
  SkippedProducts();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

/// Whether an operation that this thread begins is one that it was asked for a moment ago, and that
/// torch computes after all.
bool asked_again();

}  // namespace convoy::planner
