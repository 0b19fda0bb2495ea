#pragma once

#include <string>
#include <vector>

#include "convoy/dataset/batches.h"
#include "convoy/options/arguments.h"
#include "convoy/parallel/step_facts.h"
#include "convoy/planner/cost/profile.h"

namespace convoy::planner {

/// Options for running blocks to learn their costs; for one rank that is alone.
ProfileOptions profile_options(const options::TrainingArguments& arguments);

/// First micro-batch of the first of `num_ranks` ranks; empty where there are no rows.
parallel::MicroBatch first_batch(const options::TrainingArguments& arguments,
                                 const dataset::Dataset& data, int num_ranks);

/// Inputs of a pipeline's plan, which all ranks must have alike.
struct PipelineInputs {
  /// Costs of each block for a micro-batch: counted with rows of the data, or read from
  /// pipeline_costs. Empty without a pipeline, without rows, and for a user's modules.
  std::vector<parallel::BlockCounts> counts;
  std::string csv;  ///< content of pipeline_schedule_file
};

/// Reads files and counts, on this rank alone. Throws UsageError for a file that is not of this
/// model.
PipelineInputs pipeline_inputs(const parallel::ModelFactory& factory,
                               const options::TrainingArguments& arguments,
                               const dataset::Dataset* data);

/// Moves the inputs into the spread and the counts of a run.
void take(PipelineInputs inputs, parallel::Parallelism& parallelism,
          std::vector<parallel::BlockCounts>& counts);

}  // namespace convoy::planner
