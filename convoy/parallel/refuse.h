#pragma once

#include <optional>
#include <string>
#include <vector>

#include "convoy/parallel/step_facts.h"

// Rules that depend on options alone: a run asks them before it starts, a search of each split.
// Some are asked again of a step's own mesh, which may have more degrees than the options name.
namespace convoy::parallel {

/// Reason why options do not go together, as a sentence for people; none: they do.
using Refusal = std::optional<std::string>;

/// First reason of all rules against a run with these options.
Refusal refuse(const Parallelism& parallelism, const StepFacts& facts = {});

/// Rule of `refuse`: a V takes two virtual stages of each rank.
Refusal refuse_placement(const Parallelism& parallelism);
/// Rule of `refuse`: recomputed blocks are chosen for the stages there are, and for a limit of
/// memory.
Refusal refuse_recomputation(const Parallelism& parallelism, const StepFacts& facts);
/// Rule of `refuse`: experts are dealt out to processes that have their other weights whole.
Refusal refuse_experts(const Parallelism& parallelism, const StepFacts& facts);
/// Rule of `refuse`: tables are kept by rows over data ranks alone, in memory.
Refusal refuse_row_tables(const Parallelism& parallelism, const StepFacts& facts);

/// Rule of `refuse`: offloaded state is kept in shards, or by one rank, and a disk needs a folder.
Refusal refuse_offload(const Parallelism& parallelism, const StepFacts& facts);

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

/// Whether state can be offloaded to a disk: there is a folder on it.
bool has_disk(const OffloadOptions& offload);

/// Returns the least stage of ZeRO that keeps shards of everything that is offloaded.
int64_t least_zero(const OffloadOptions& offload);

}  // namespace convoy::parallel
