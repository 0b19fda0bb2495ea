#pragma once

#include "convoy/plan/group_times.h"
#include "convoy/plan/predict.h"

namespace convoy::plan {

/// The groups of a mesh whose collectives a step waits for.
struct StepGroups {
  StepGroups(const Cluster& cluster, const schedule::Mesh& mesh, KnownGroups* known)
      : rows(cluster, mesh, schedule::kGradients, known),
        world(cluster, mesh, schedule::kWorld, known),
        state(cluster, mesh, schedule::kState, known),
        replicas(cluster, mesh, schedule::Axis::Replicate, known),
        tensor(cluster, mesh, schedule::Axis::Tensor, known) {}

  GroupTimes rows, world, state, replicas, tensor;
};

/// Times of a step on a rank with this layout, beside its blocks.
schedule::StepTimes times_of(const schedule::Layout& layout, const Numbers& numbers,
                             const Cluster& cluster, const Parallelism& split,
                             const StepFacts& facts, const StepGroups& groups);

}  // namespace convoy::plan
