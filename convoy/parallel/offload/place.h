#pragma once

#include "convoy/parallel/layout.h"

namespace convoy::parallel {

/// Place where a kind of state is kept between its uses. Masters beside weights of 16 bits go with
/// the moments; masters of fp32 are the weights.
Place place_of(Kind kind, const OffloadOptions& options, bool low_precision);

}  // namespace convoy::parallel
