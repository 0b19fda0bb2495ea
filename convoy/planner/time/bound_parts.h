#pragma once

// Internal to the component: what bounds of time and of memory both read of a split.

#include "convoy/planner/time/predict.h"

namespace convoy::planner {

/// Elements of each block on the tensor rank that has most, without tables that are kept by rows; a
/// parameter that several blocks read counts for the first.
std::vector<double> elements_of(const ModelCosts& numbers, const StepFacts& facts,
                                const Parallelism& split);

/// Elements of each block, but for experts where ranks share these out.
std::vector<double> elements_beside_experts(const ModelCosts& numbers, const StepFacts& facts,
                                            const Parallelism& split);

/// Elements of all blocks that backward reads, too, but for such experts.
double elements_read_in_backward(const ModelCosts& numbers, const StepFacts& facts,
                                 const Parallelism& split);

bool is_recomputed(const ModelCosts& numbers, const Parallelism& split, size_t block);
/// Whether a block may be one of those that are recomputed, where not all are.
bool may_be_recomputed(const ModelCosts& numbers, const Parallelism& split, size_t block);

/// Sum of the `number` smallest values, and of the largest.
double least_of(std::vector<double> values, int64_t number);
double most_of(std::vector<double> values, int64_t number);

/// Returns the cuts that the schedule of a split chooses among.
std::vector<parallel::Cut> cuts_of(const ModelCosts& numbers, const StepFacts& facts,
                                   const Parallelism& split);

}  // namespace convoy::planner
