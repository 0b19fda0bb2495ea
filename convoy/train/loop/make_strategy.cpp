#include "convoy/train/loop/make_strategy.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include <chrono>

#include "convoy/base/error.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/comm/agree.h"
#include "convoy/job/offload.h"
#include "convoy/job/run_options.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/train/checkpoints/checkpoints.h"
#include "convoy/train/loop/batch_sizer.h"

namespace convoy::train {

namespace {

/// Inputs of a pipeline's plan, which rank 0 reads and measures for all ranks, longer than a
/// collective may wait.
planner::PipelineInputs inputs_of_pipeline(const RunContext& run,
                                           const parallel::ModelFactory& factory,
                                           const dataset::Dataset* train_data) {
  if (train_data == nullptr || run.arguments.parallel.num_stages() == 1) return {};
  const auto told = comm::ask_main(
      run.job.world(), "count what blocks take",
      [&] {
        const auto inputs = planner::pipeline_inputs(factory, run.arguments, train_data);
        return Json{{"counts", parallel::to_json(inputs.counts)}, {"csv", inputs.csv}};
      },
      comm::Lasts::Long);
  return {parallel::counts_from_json(told.at("counts")), told.at("csv")};
}

}  // namespace

std::unique_ptr<parallel::Strategy> make_strategy(const RunContext& run,
                                                  const parallel::ModelFactory& factory,
                                                  const dataset::Dataset* train_data,
                                                  Trainer::Fill fill) {
  if (!factory) fail<UsageError>("train", "the Trainer got no function that makes the model");
  const auto& arguments = run.arguments;
  const auto& job = run.job;
  const bool trains = train_data != nullptr;
  auto options = job::replica_options(arguments, trains);
  options.device = job.devices.at(0);
  options.parallelism.offload = job::offload_options(arguments.parallel, job, trains);
  options.fill = std::move(fill);
  take(inputs_of_pipeline(run, factory, train_data), options.parallelism, options.counts);
  if (resumes(arguments)) {
    // The checkpoint holds everything, unless it is an adapter's.
    options.fill = [fill = std::move(options.fill)](parallel::Replica& replica) {
      if (fill && checkpoint::is_adapted(replica.weights())) fill(replica);
    };
  }
  const auto checked = planner::check_memory(factory, arguments, ranks_here(job));
  if (!job.in_threads()) return parallel::make_process_strategy(checked, job.groups, options);
  const std::chrono::seconds timeout(arguments.parallel.timeout);
  return parallel::make_thread_strategy(checked, job.devices, options, job.threads, timeout,
                                        job.stages);
}

void check_gradients(parallel::Strategy& strategy) {
  if (!at::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) {
    fail<UsageError>("train",
                     "training needs gradients, which are off here; try without NoGradGuard and "
                     "InferenceMode around train()");
  }
  auto& replica = strategy.replica();
  if (replica.groups().mesh.degree(parallel::Axis::Pipeline) > 1) return;  // each has some
  if (replica.flat().num_trainable_parameters() > 0) return;
  fail<UsageError>("train", "the model has no weights to train; got {} frozen ones",
                   replica.flat().num_parameters());
}

}  // namespace convoy::train
