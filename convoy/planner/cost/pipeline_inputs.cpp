#include "convoy/planner/cost/pipeline_inputs.h"

#include "convoy/base/files.h"
#include "convoy/job/run_options.h"
#include "convoy/nn/declare.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/planner/cost/profile_file.h"
#include "convoy/planner/cost/trace.h"

namespace convoy::planner {

ProfileOptions profile_options(const options::TrainingArguments& arguments) {
  const auto replica = job::any_split_options(arguments);
  ProfileOptions out{replica.compute_dtype, replica.seed};
  out.by_rows = replica.parallelism.keeps_rows(replica.facts().trains);
  return out;
}

parallel::MicroBatch first_batch(const options::TrainingArguments& arguments,
                                 const dataset::Dataset& data, int num_ranks) {
  auto options = job::stream_options(arguments, true);
  options.layout.world = num_ranks;
  const auto stream = data.open(options);
  stream->start(0, 0);
  auto batch = stream->next();
  return batch ? std::move(batch->micro_batches.at(0)) : parallel::MicroBatch();
}

PipelineInputs pipeline_inputs(const parallel::ModelFactory& factory,
                               const options::TrainingArguments& arguments,
                               const dataset::Dataset* data) {
  const auto& parallel = arguments.parallel;
  if (data == nullptr || parallel.num_stages() == 1) return {};
  PipelineInputs out;
  if (!parallel.parallelism.pipeline.file.empty())
    out.csv = read_file(parallel.parallelism.pipeline.file);
  const auto blocks = factory();
  const auto model = nn::declare(blocks);
  if (!parallel.parallelism.pipeline.costs.empty()) {
    const auto& file = parallel.parallelism.pipeline.costs;
    const auto text = read_file(file);
    const auto json = parse_json(text, file);
    out.counts = is_profile(json) ? counts_of(profile_from_json(json, file),
                                              arguments.per_device_train_batch_size,
                                              parallel.num_tensor_ranks(), model, file)
                                  : parallel::counts_from_file(text, file, model);
    return out;
  }
  if (model.has_modules()) return out;
  const auto batch = first_batch(arguments, *data, 1);
  if (batch.empty()) return out;
  const auto replica = job::any_split_options(arguments);
  out.counts = trace(blocks, batch, {replica.compute_dtype, replica.seed});
  // Costs of a whole micro-batch.
  const auto rows = static_cast<double>(arguments.per_device_train_batch_size);
  for (auto& block : out.counts) block = block.times(rows);
  return out;
}

void take(PipelineInputs inputs, parallel::Parallelism& parallelism,
          std::vector<parallel::BlockCounts>& counts) {
  counts = std::move(inputs.counts);
  parallelism.pipeline.csv = std::move(inputs.csv);
}

}  // namespace convoy::planner
