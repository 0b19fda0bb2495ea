#pragma once

#include "convoy/parallel/layout.h"

namespace convoy::parallel {

/// Whether a step with this layout reduces gradients after every micro-batch, a rank's part to
/// each, and not after the last only.
inline bool reduces_each(const Layout& layout, const Parallelism& parallelism) {
  return layout.is_sharded(Kind::Gradients) && parallelism.reduce_each;
}

}  // namespace convoy::parallel
