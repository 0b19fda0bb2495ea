#pragma once

#include "convoy/planner/time/group_times.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Groups of a mesh whose collectives a step waits for.
struct StepGroups {
  StepGroups(const Cluster& cluster, const parallel::Mesh& mesh, KnownGroups* known)
      : rows(cluster, mesh, parallel::kGradients, known),
        world(cluster, mesh, parallel::kWorld, known),
        state(cluster, mesh, parallel::kState, known),
        of_experts(cluster, mesh, parallel::kExpertGradients, known),
        state_of_experts(cluster, mesh, parallel::kExpertState, known),
        replicas(cluster, mesh, parallel::Axis::Replicate, known),
        tensor(cluster, mesh, parallel::Axis::Tensor, known) {}

  GroupTimes rows, world, state, of_experts, state_of_experts, replicas, tensor;
};

/// Times of a step on a rank with this layout, beside its blocks.
parallel::StepTimes times_of(const parallel::Layout& layout, const ModelCosts& numbers,
                             const Cluster& cluster, const Parallelism& split,
                             const StepFacts& facts, const StepGroups& groups);

}  // namespace convoy::planner
