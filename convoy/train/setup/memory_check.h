#pragma once

#include <string>
#include <vector>

#include "convoy/parallel/run/replica.h"
#include "convoy/train/setup/arguments.h"

// Sizes are held against the machine before they are taken: what is too large is told by the option
// that makes it so, not by the kernel's killer.
namespace convoy::train {

/// A part of a model, as a person knows it.
struct MemoryPart {
  std::string what;  ///< "n_layer = 12 with d_model = 768: the layers take"
  double parameters;
  std::string advice;    ///< what to make smaller
  bool by_rows = false;  ///< a table that row_tables keeps by rows
};

/// Throws UsageError, naming the largest part, when what a rank keeps of a model's weights with
/// gradient and the optimizer's states, as `parallel` says, does not fit into this host's memory
/// for each of the ranks that a launcher started here.
void check_memory(const std::vector<MemoryPart>& parts, const ParallelArguments& parallel);

/// `factory`, refusing (UsageError) what it makes when a step of so many micro-batches does not
/// fit for each of `ranks` on this host.
parallel::ModelFactory check_memory(parallel::ModelFactory factory,
                                    const TrainingArguments& arguments, int ranks);

/// What to tell before more memory is taken than is left.
std::string little_memory(int64_t needed, int64_t available);

/// What to tell when memory ran out; `details`: what torch says, or "".
std::string out_of_memory(const std::string& details);

}  // namespace convoy::train
