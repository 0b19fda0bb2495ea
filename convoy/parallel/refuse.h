#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/parallel/step_facts.h"

// Rules that depend on options alone: a run asks them before it starts, a search of each split.
namespace convoy::parallel {

/// Reason why options do not go together, as a sentence for people; none: they do.
using Refusal = std::optional<std::string>;

/// Options of a pipeline that have no effect without stages or with their schedule, or that are two
/// schedules; and two ways to recompute blocks.
Refusal refuse_schedule(const Parallelism& parallelism);
/// Shared tokens without ranks to share them.
Refusal refuse_shared_tokens(const Parallelism& parallelism);
/// Offload of state of which no shard is kept, or that each micro-batch needs.
Refusal refuse_offload(const Parallelism& parallelism, const StepFacts& facts = {});

/// The first reason of all rules.
Refusal refuse(const Parallelism& parallelism, const StepFacts& facts = {});

/// Throws UsageError with a reason that there is.
void require(const Refusal& none);

/// Part of the state, where an option places it.
struct PlacedPart {
  const char* option;
  Place place;
  int64_t least_zero;  ///< stage of ZeRO that keeps a shard of it
  const char* why;     ///< none is kept below
};
std::vector<PlacedPart> placed_parts(const OffloadOptions& offload);

/// The least stage of ZeRO that keeps shards of everything that is offloaded.
int64_t least_zero(const OffloadOptions& offload);

}  // namespace convoy::parallel
