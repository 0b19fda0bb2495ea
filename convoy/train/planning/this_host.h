#pragma once

#include "convoy/plan/cluster.h"
#include "convoy/train/setup/arguments.h"

namespace convoy::train {

/// This host as `num_ranks` ranks on its processor would find it, each with its share of the memory
/// (at most `memory_bytes`, 0: no limit but the host's). Measures for some seconds what sums over
/// the ranks take.
plan::Cluster this_host(int num_ranks, int64_t memory_bytes);

/// What the optimizer and the norm take for an element, where so many ranks work at once.
double seconds_of_update(const TrainingArguments& arguments, int num_ranks);

}  // namespace convoy::train
