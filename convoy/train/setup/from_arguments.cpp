#include "convoy/train/setup/from_arguments.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"
#include "convoy/nn/declare.h"
#include "convoy/profile/trace.h"
#include "convoy/schedule/pipeline/csv.h"
#include "convoy/schedule/pipeline/cut.h"
#include "convoy/schedule/pipeline/pipeline.h"
#include "convoy/schedule/run/counts.h"
#include "convoy/schedule/run/refuse.h"
#include "convoy/train/planning/profile_file.h"

namespace convoy::train {

namespace {

/// Throws UsageError where rows of a table cannot miss updates.
void check_missed_updates(const TrainingArguments& arguments, const optim::Optimizer& optimizer) {
  if (optimizer.updates_until_idle() > 0) return;
  fail<UsageError>("train",
                   "row_tables = true needs an optimizer that comes to rest some updates after a "
                   "row's last gradient; got optim = {} with adam_beta1 = {}, adam_beta2 = {}; try "
                   "--optim {} with an adam_beta1 below the root of adam_beta2",
                   arguments.optim, arguments.adam_beta1, arguments.adam_beta2,
                   optim::kDefaultOptimizer);
}

/// Name of a schedule, with facts about it that the name does not tell.
std::string schedule_text(const schedule::RunPlan& plan, const schedule::PipelineOptions& asked) {
  const bool searched = asked.schedule == &schedule::kAutomatic;
  const auto name = asked.csv.empty() ? std::string(asked.schedule->name) : asked.file;
  if (!searched && asked.csv.empty()) return name;
  std::vector<std::string> parts;
  if (searched) parts.push_back(plan.found.empty() ? "a custom order" : plan.found);
  const auto pipe = schedule::pipe_of(plan.cut, plan.step.parallelism.micro_batches);
  const auto each = pipe.virtual_stages_of(0).size();
  if (each > 1) {
    parts.push_back(fmt::format("{} virtual stages per rank, placement {}", each,
                                pipe.is_loop() ? "loop" : "v"));
  }
  const bool halves = schedule::has_halves(plan.orders);
  parts.emplace_back(halves ? "split backward" : "full backward");
  return fmt::format("{} ({})", name, join(parts));
}

}  // namespace

parallel::MicroBatch first_batch(const TrainingArguments& arguments, const Dataset& data,
                                 int num_ranks) {
  auto options = stream_options(arguments, true);
  options.layout.world = num_ranks;
  const auto stream = data.open(options);
  stream->start(0, 0);
  auto batch = stream->next();
  return batch ? std::move(batch->micro_batches.at(0)) : parallel::MicroBatch();
}

PipelineInputs pipeline_inputs(const parallel::ModelFactory& factory,
                               const TrainingArguments& arguments, const Dataset* data) {
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
                                  : schedule::counts_from_file(text, file, model);
    return out;
  }
  if (model.has_modules()) return out;
  const auto batch = first_batch(arguments, *data, 1);
  if (batch.empty()) return out;
  const auto replica = replica_options(arguments, true);
  out.counts = profile::trace(blocks, batch, {replica.compute_dtype, replica.seed});
  // Of a micro-batch of rows like these.
  const auto rows = static_cast<double>(arguments.per_device_train_batch_size);
  for (auto& block : out.counts) block = block.times(rows);
  return out;
}

void take(PipelineInputs inputs, schedule::Parallelism& parallelism,
          std::vector<schedule::BlockCounts>& counts) {
  counts = std::move(inputs.counts);
  parallelism.pipeline.csv = std::move(inputs.csv);
}

std::string stages_text(const schedule::Layout& layout) {
  std::vector<std::string> stages;
  for (size_t stage = 0; stage < layout.options().stages.size(); ++stage) {
    std::vector<std::string> stretches;
    for (const auto& [first, last] : layout.virtual_stages(static_cast<int>(stage))) {
      stretches.push_back(first == last ? std::to_string(first)
                                        : fmt::format("{}-{}", first, last));
    }
    stages.push_back(join(stretches, ", "));
  }
  return join(stages, " | ");
}

std::string pipeline_text(const schedule::RunPlan& plan, const schedule::Parallelism& parallelism) {
  if (plan.stages.size() == 1) return "";
  const auto num_recomputed = plan.step.recomputed.size();
  return fmt::format(
      "{} stages, {}, blocks {}{}; a bubble of about {:.0f} %", plan.stages.size(),
      schedule_text(plan, parallelism.pipeline), stages_text(plan.stages[0].layout),
      parallelism.recompute || num_recomputed == 0
          ? ""
          : fmt::format(", of which {} are recomputed", fmt::join(plan.step.recomputed, ", ")),
      100 * plan.timeline.idle());
}

std::string pipeline_csv(const schedule::RunPlan& plan) {
  const auto pipe = schedule::pipe_of(plan.cut, plan.step.parallelism.micro_batches);
  const bool trains = !plan.stages.empty() && !plan.stages[0].step.empty();
  // Neighbouring virtual stages that are computed as one are no v any more.
  const bool readable = !plan.cut.empty() && (pipe.is_loop() || pipe.is_v());
  return trains && readable ? schedule::to_csv(plan.orders) : "";
}

parallel::ReplicaOptions replica_options(const TrainingArguments& arguments, bool trains) {
  const auto& parallel = arguments.parallel;
  parallel::ReplicaOptions options;
  options.compute_dtype = arguments.bf16 ? at::kBFloat16 : arguments.fp16 ? at::kHalf : at::kFloat;
  options.parallelism = parallel.parallelism;
  options.parallelism.offload = {};
  options.parallelism.rows = arguments.per_device_train_batch_size;
  options.parallelism.micro_batches = arguments.gradient_accumulation_steps;
  options.parallelism.recompute = arguments.gradient_checkpointing;
  schedule::require(refuse_schedule(options.parallelism));
  options.parallelism.recompute = trains && arguments.gradient_checkpointing;
  options.seed = static_cast<uint64_t>(arguments.seed);
  options.trains = trains;
  options.optimizer = optim::make_optimizer(
      arguments.optim, {arguments.adam_beta1, arguments.adam_beta2, arguments.adam_epsilon});
  if (keeps_rows(options.parallelism, options.facts()))
    check_missed_updates(arguments, *options.optimizer);
  return options;
}

profile::ProfileOptions profile_options(const TrainingArguments& arguments) {
  const auto replica = replica_options(arguments, true);
  profile::ProfileOptions out{replica.compute_dtype, replica.seed};
  out.by_rows = keeps_rows(replica.parallelism, replica.facts());
  return out;
}

StreamOptions stream_options(const TrainingArguments& arguments, bool training) {
  StreamOptions options;
  options.layout.accumulation = training ? arguments.gradient_accumulation_steps : 1;
  options.layout.per_device_batch =
      training ? arguments.per_device_train_batch_size : arguments.per_device_eval_batch_size;
  options.seed = static_cast<uint64_t>(arguments.data_seed.value_or(arguments.seed));
  options.shuffle = training;
  options.drop_last = training && arguments.dataloader_drop_last;
  options.every_rank_needs_rows = training;
  return options;
}

}  // namespace convoy::train
