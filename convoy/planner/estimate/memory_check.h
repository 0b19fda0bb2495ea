#pragma once

#include <string>
#include <vector>

#include "convoy/launch/environment.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/run/replica.h"

// Sizes are held against the machine before they are taken: what is too large is told by the option
// that makes it so, not by the kernel's killer.
namespace convoy::planner {

/// A part of a model, as a person knows it.
struct MemoryPart {
  std::string what;  ///< "n_layer = 12 with d_model = 768: the layers take"
  double parameters;
  std::string advice;    ///< the size to make smaller
  bool by_rows = false;  ///< a table that row_tables keeps by rows
  double frozen = 0;     ///< parameters more that are not trained
};

/// Bytes that each rank keeps of a model's weights with gradient and the optimizer's states, as
/// `parallel` says.
double state_bytes(const std::vector<MemoryPart>& parts, const options::ParallelArguments& parallel,
                   const launch::RankEnvironment& environment);

/// Throws UsageError, naming the largest part, when what a rank keeps of a model's weights with
/// gradient and the optimizer's states, as `parallel` says, does not fit into this host's memory
/// for each of the ranks that a launcher started here.
void check_memory(const std::vector<MemoryPart>& parts, const options::ParallelArguments& parallel);

/// `factory`, refusing (UsageError) what it makes when a step of so many micro-batches does not
/// fit for each of `ranks` on this host.
parallel::ModelFactory check_memory(parallel::ModelFactory factory,
                                    const options::TrainingArguments& arguments, int ranks);

/// Advice where a training by these arguments takes too much of a device's memory; of
/// `num_ranks` ranks, of which `ranks_here` share a host. Nothing that it does already.
std::string to_take_less(const options::TrainingArguments& arguments, int num_ranks,
                         int ranks_here = 1);

/// Sets the advice that little_memory() and out_of_memory() of this process give from now on.
void set_memory_advice(const std::string& advice);

/// Warning before more memory is taken than is left.
std::string little_memory(int64_t needed, int64_t available);

/// Message for when memory ran out; `details`: torch's message, or "".
std::string out_of_memory(const std::string& details);

}  // namespace convoy::planner
