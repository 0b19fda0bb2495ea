#pragma once

#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Lower bound of a step's time, in seconds: the largest of these. All blocks on all ranks with the
/// sums inside of them, and the update; the transfers of offloaded state; in a pipeline the
/// computing of the stage that is farthest from both ends of a step, with the way to it and back;
/// the sums of gradients and stage 3's gathers of weights, one after the other. No schedule is
/// faster.
double least_seconds(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                     const Parallelism& split);

/// Lower bound like least_seconds(), without the transfers that overlap with computing.
double least_computing(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                       const Parallelism& split);

/// Lower bound of the memory of the stage that needs most, in bytes: its part of the state, and the
/// micro-batches that it has begun before it runs a first backward.
int64_t least_bytes(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                    const Parallelism& split);

/// Number of blocks of each stage that must be recomputed at the least, so that least_bytes() fit;
/// -1: they never do.
int64_t least_recomputed(const ModelCosts& numbers, const Cluster& cluster, const StepFacts& facts,
                         Parallelism split);

}  // namespace convoy::planner
