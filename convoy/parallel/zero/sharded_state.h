#pragma once

#include "convoy/parallel/layout.h"

namespace convoy::parallel {

/// Whether each rank keeps only its part of a kind of state at a stage of ZeRO (Rajbhandari et al.,
/// 2020): of moments from stage 1 on, of gradients from 2, of weights from 3. Masters beside
/// weights of 16 bits go with the moments; masters of fp32 are the weights.
bool is_sharded_at(int stage, Kind kind, bool low_precision);

}  // namespace convoy::parallel
