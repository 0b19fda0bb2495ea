#include "convoy/train/loop/describe.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>

#include "convoy/comm/to_host.h"
#include "convoy/job/offload.h"
#include "convoy/parallel/run_plan/run_plan_text.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/memory_use.h"

namespace convoy::train {

namespace {

/// Returns warnings of slow tensor ranks: every layer waits for its sums over them.
std::vector<std::string> tensor_warnings(const parallel::Mesh& mesh,
                                         const std::vector<job::RankPlacement>& placements) {
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) {
    const int first = mesh.of(rank).ranks_along(parallel::Axis::Tensor).front();
    const auto& here = placements.at(static_cast<size_t>(rank)).host;
    const auto& there = placements.at(static_cast<size_t>(first)).host;
    if (here == there) continue;
    return {
        fmt::format("tensor ranks {} and {} are on {} and {}: each layer waits for the network "
                    "four times in a step; try a tensor_parallel_size that divides the ranks "
                    "of a host, or --pipeline_parallel_size between hosts",
                    first, rank, there, here)};
  }
  return {};
}

/// Whether a block reads all buckets of the model. Frozen parameters have buckets of their own,
/// even where the model is one block.
bool reads_all(const parallel::Layout& layout) {
  for (int64_t block = 0; block < layout.table().num_blocks(); ++block) {
    if (std::ssize(layout.buckets_of_block(block)) == layout.num_buckets()) return true;
  }
  return false;
}

/// Returns a warning where the disk has no room for a checkpoint, before hours of training lead to
/// the first one.
std::string lack_of_space(const RunContext& run, const dataset::BatchStream& stream,
                          const Checkpoints& checkpoints) {
  const int64_t steps = last_step(run.arguments, run.state) - run.state.global_step;
  if (!run.job.is_main() || steps <= 0) return "";
  const auto& when = run.arguments.save_strategy;
  const int64_t between = when == "steps"   ? steps_of(run.arguments.save_steps, run.state)
                          : when == "epoch" ? std::max<int64_t>(1, stream.steps_per_epoch())
                                            : steps;
  return checkpoints.lack_of_space(when == "no" ? 0 : (steps + between - 1) / between);
}

/// Whether a rank's state is not all in its device's memory.
bool shards_state(const parallel::FlatBuffers& flat) {
  return flat.layout().options().num_parts > 1 || flat.offload() != nullptr;
}

/// Reason why ZeRO costs more than it saves here, or saves nothing; "" where it is of use.
std::string zero_warning(const RunContext& run, const RunInfo& info) {
  const auto& job = run.job;
  const auto& flat = run.strategy->replica().flat();
  const auto& parallelism = run.arguments.parallel.parallelism;
  const int64_t zero = parallelism.zero;
  const int tensor_ranks = job.groups.tensor.size();
  if (zero > 0 && !shards_state(flat)) {
    return fmt::format(
        "zero = {} shards nothing {}", zero,
        job.num_devices() == 1 ? "on one rank; try convoy launch -n 2 train ..."
        : job.stages > 1       ? "where each stage has one rank; try --replicas 2"
        : job.num_ranks() == 1
            ? fmt::format("where {}; try --nproc {}",
                          tensor_ranks > 1 ? "no two ranks have the same weights"
                                           : "each stage has one rank",
                          2 * job.world().size())
            : fmt::format("with one rank per state replica: shard_ranks = {}; try all",
                          run.arguments.parallel.shard_ranks));
  }
  if (zero == 3 && info.most_gathered == 0) {
    return fmt::format(
        "zero = 3 shards no weights: all buckets of the model are below zero_keep_mb = {}; try a "
        "smaller one, or --zero 2",
        parallelism.keep_bytes >> 20);
  }
  if (zero == 3 && info.pipeline.empty() && reads_all(flat.layout())) {
    return "zero = 3 gathers the whole model at once: it is one block, or smaller than "
           "bucket_cap_mb; try a smaller --bucket_cap_mb, or give the model as a list of blocks";
  }
  return "";
}

/// Reason why ZeRO 2 and 3 communicate for each micro-batch; "" where they do not, or must.
std::string traffic_warning(const RunContext& run, const RunInfo& info) {
  const int64_t zero = run.arguments.parallel.parallelism.zero;
  const bool cuts = !info.pipeline.empty() || run.job.groups.tensor.size() > 1;
  if (!cuts || zero < 2 || !shards_state(run.strategy->replica().flat())) return "";
  return fmt::format(
      "zero = {} with {}: {} each micro-batch, and {}; try --zero 1, which sends as "
      "much as without ZeRO",
      zero, info.pipeline.empty() ? "tensor ranks" : "a pipeline",
      zero == 3 ? "weights are gathered and gradients reduced for" : "gradients are reduced after",
      info.pipeline.empty() ? "tensor ranks already split what that would save"
                            : "a pipeline needs many of them");
}

/// Reason why there is nothing left to train; "" where there is.
std::string nothing_left(const RunContext& run, const RunInfo& info, bool stopped_early) {
  const auto& state = run.state;
  const bool stops = last_step(run.arguments, state) < state.max_steps;
  if (!stopped_early && state.global_step < last_step(run.arguments, state)) return "";
  return fmt::format("nothing is left to train: {} is at step {} of {}{}; try more {}",
                     info.resumed_from.empty() ? "the run" : info.resumed_from, state.global_step,
                     state.max_steps, stopped_early ? ", where it stopped early" : "",
                     stopped_early ? "early_stopping_patience"
                     : stops       ? "stop_steps"
                                   : "num_train_epochs or max_steps");
}

/// State of a rank and of each stage, in bytes. Collective where ranks hold different parts.
void describe_memory(const RunContext& run, RunInfo& info) {
  for (const auto* replica : run.strategy->replicas()) {
    info.memory = largest(info.memory, replica->memory());
    info.most_gathered = std::max(info.most_gathered, replica->most_gathered());
  }
  for (const auto& stage : run.strategy->replica().plan().stages) {
    info.stage_bytes.push_back(stage.memory.parameters + stage.memory.gradients +
                               stage.memory.optimizer);
  }
  if (info.pipeline.empty() && run.job.groups.tensor.size() == 1) return;
  const auto& world = run.job.world();  // of the rank that holds most
  info.memory = largest({info.memory}, world).front();
  auto most = at::tensor({info.most_gathered}, at::kLong);
  world.all_reduce(most, comm::ReduceOp::Max, "reduce gathered weights");
  info.most_gathered = comm::item<int64_t>(most);
}

}  // namespace

RunInfo describe(const RunContext& run, const dataset::BatchStream& stream,
                 const Checkpoints& checkpoints, bool stopped_early) {
  auto& replica = run.strategy->replica();
  RunInfo info;
  info.job = &run.job;
  info.arguments = &run.arguments;
  info.num_examples = run.state.num_rows;
  info.num_parameters = replica.flat().num_parameters();
  info.num_trainable_parameters = replica.flat().num_trainable_parameters();
  info.pipeline = parallel::pipeline_text(replica.plan(), replica.options().parallelism);
  describe_memory(run, info);
  info.per_device_batch = per_device_rows(run, run.arguments.per_device_train_batch_size);
  info.total_batch = run.state.step_samples;
  info.steps_per_epoch = stream.steps_per_epoch();
  info.max_steps = run.state.max_steps;
  info.last_step = last_step(run.arguments, run.state);
  info.first_step = run.state.global_step;
  info.resumed_from = checkpoints.resumed_from();
  info.last_save = run.state.save_seconds;
  info.placements = job::gather_placements(run.job);
  info.shares = stream.partition_summary();
  const auto warn = [&](const std::vector<std::string>& texts) {
    for (const auto& text : texts) {
      if (!text.empty()) info.warnings.push_back(text);
    }
  };
  warn(run.job.warnings);
  warn(job::offload_warnings(run.arguments.parallel));
  warn(tensor_warnings(run.job.groups.mesh, info.placements));
  warn({traffic_warning(run, info), zero_warning(run, info)});
  warn(stream.warnings());
  if (!stopped_early) {
    warn({lack_of_space(run, stream, checkpoints),
          checkpoints.slow_save("the last checkpoint", info.last_save)});
  }
  warn(run.arguments.warnings(run.state.max_steps));
  warn({nothing_left(run, info, stopped_early)});
  return info;
}

}  // namespace convoy::train
