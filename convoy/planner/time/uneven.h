#pragma once

#include <vector>

#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Bytes that training keeps of a block's parameters on a tensor rank: `bytes_each` for each
/// element that is trained, for others their values, which have no masters.
double state_of_block(const parallel::ModelDecl& model, const std::vector<int64_t>& params,
                      const parallel::TensorPlace& place, double bytes_each, bool low_precision);

/// Speeds of a mesh's stages on devices that differ, in products where `Cluster::device` has 1: of
/// each data rank by stage. Ranks of the same rows wait for the slowest of them.
std::vector<std::vector<double>> speeds_of(const Cluster& cluster, const parallel::Mesh& mesh,
                                           bool low_precision);

/// Returns the first block of each stage but the first, so that the stage that takes longest on its
/// slowest device is as fast as can be, and the state of none is more than its devices have room
/// for; empty where no cut fits, or where stages are as fast as each other.
std::vector<int64_t> cut_for_speeds(const ModelCosts& numbers, const Cluster& cluster,
                                    const StepFacts& facts, const Parallelism& split);

/// Returns the least room of a stage's ranks.
int64_t room_of_stage(const Cluster& cluster, const parallel::Mesh& mesh, int stage);

}  // namespace convoy::planner
