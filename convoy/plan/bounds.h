#pragma once

#include "convoy/plan/predict.h"

namespace convoy::plan {

/// What a step takes at the least: all blocks on all ranks and the sums inside of them, and the
/// update; or what is offloaded on its way there and back; or in a pipeline what the stage that is
/// farthest from both ends of a step computes, with the way to it and back; or the sums of
/// gradients and stage 3's gathers of weights, one after the other. No schedule is faster.
double least_seconds(const Numbers& numbers, const Cluster& cluster,
                     const schedule::RunOptions& base, const Split& split);

/// The same without what links carry beside the computing.
double least_computing(const Numbers& numbers, const Cluster& cluster,
                       const schedule::RunOptions& base, const Split& split);

/// What the stage that needs most takes at the least: its part of the state, and the micro-batches
/// that it has begun before it runs a first backward.
int64_t least_bytes(const Numbers& numbers, const Cluster& cluster,
                    const schedule::RunOptions& base, const Split& split);

/// How many blocks of each stage must be recomputed at the least, so that least_bytes() fit; -1:
/// they never do.
int64_t least_recomputed(const Numbers& numbers, const Cluster& cluster,
                         const schedule::RunOptions& base, Split split);

}  // namespace convoy::plan
