#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/random.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/comm/agree.h"
#include "convoy/comm/to_host.h"
#include "convoy/job/offload.h"
#include "convoy/job/run_options.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/parallel/run_plan/run_plan_text.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/train/loop/torch_seed.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/memory_use.h"
#include "convoy/train/run_sums.h"

namespace convoy::train {

namespace {

/// Every layer waits for its sums over tensor ranks.
std::vector<std::string> tensor_warnings(const parallel::Mesh& mesh,
                                         const std::vector<job::Placement>& placements) {
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

/// Whether a block reads all of the model's buckets. What is not trained has buckets of its own,
/// even where the model is one block.
bool reads_all(const parallel::Layout& layout) {
  for (int64_t block = 0; block < layout.table().num_blocks(); ++block) {
    if (std::ssize(layout.buckets_of_block(block)) == layout.num_buckets()) return true;
  }
  return false;
}

}  // namespace

void Trainer::Impl::make_strategy(parallel::ModelFactory factory, Fill fill) {
  if (!factory) fail<UsageError>("train", "the Trainer got no function that makes the model");
  auto options = job::replica_options(arguments_, train_data_ != nullptr);
  options.device = job_.devices.at(0);
  options.parallelism.offload =
      job::offload_options(arguments_.parallel, job_, train_data_ != nullptr);
  options.fill = std::move(fill);
  take(inputs_of_pipeline(factory), options.parallelism, options.counts);
  if (resumes(arguments_)) {
    // The checkpoint holds everything, unless it is an adapter's.
    options.fill = [fill = std::move(options.fill)](parallel::Replica& replica) {
      if (fill && checkpoint::is_adapted(replica.weights())) fill(replica);
    };
  }
  factory = planner::check_memory(std::move(factory), arguments_, ranks_here());
  strategy_ = job_.in_threads()
                  ? parallel::make_thread_strategy(
                        factory, job_.devices, options, job_.threads,
                        std::chrono::seconds(arguments_.parallel.timeout), job_.stages)
                  : parallel::make_process_strategy(factory, job_.groups, options);
}

/// Rank 0 reads and counts for all, which may take longer than a collective may wait.
planner::PipelineInputs Trainer::Impl::inputs_of_pipeline(
    const parallel::ModelFactory& factory) const {
  if (!train_data_ || arguments_.parallel.num_stages() == 1) return {};
  const auto told = comm::ask_main(
      job_.world(), "count what blocks take",
      [&] {
        const auto inputs = planner::pipeline_inputs(factory, arguments_, train_data_.get());
        return Json{{"counts", parallel::to_json(inputs.counts)}, {"csv", inputs.csv}};
      },
      comm::Lasts::Long);
  return {parallel::counts_from_json(told.at("counts")), told.at("csv")};
}

int64_t Trainer::Impl::per_device(int64_t configured) const {
  if (!job_.in_threads() || !arguments_.parallel.counts_in_total()) return configured;
  const int64_t devices = job_.num_ranks();
  if (configured % devices != 0) {
    fail<UsageError>("train", "a total batch of {} does not divide over {} devices; try {}",
                     configured, devices, (configured / devices + 1) * devices);
  }
  return configured / devices;
}

data::StreamOptions Trainer::Impl::stream_options(bool training) const {
  auto options = job::stream_options(arguments_, training);
  // DataParallel reads the batches of all its devices as one stream, micro-batch by micro-batch.
  // Processes that share a data rank, on another axis of the mesh, read the same rows.
  const int local = strategy_->num_local_ranks();
  options.layout.world = strategy_->num_ranks() / local;
  options.layout.rank = strategy_->first_rank() / local;
  options.layout.accumulation *= local;
  options.layout.per_device_batch = per_device(options.layout.per_device_batch);
  return options;
}

// Other files, or another part of them, would end in a collective that one rank does not call.
void Trainer::Impl::check_same_data(const dataset::BatchStream& stream, const char* what) const {
  comm::check_agreement(job_.world(), {fmt::format("{} rows", stream.num_rows()), stream.order()},
                        what);
}

void Trainer::Impl::check_gradients() const {
  if (!at::GradMode::is_enabled() || c10::InferenceMode::is_enabled()) {
    fail<UsageError>("train",
                     "training needs gradients, which are off here; try without NoGradGuard and "
                     "InferenceMode around train()");
  }
  auto& replica = strategy_->replica();
  if (replica.groups().mesh.degree(parallel::Axis::Pipeline) > 1) return;  // each has some
  if (replica.flat().num_trainable_parameters() > 0) return;
  fail<UsageError>("train", "the model has no weights to train; got {} frozen ones",
                   replica.flat().num_parameters());
}

void Trainer::Impl::prepare() {
  stream_ = train_data_->open(stream_options(true));
  if (!stream_) fail<UsageError>("train", "the data set's open() returned null");
  check_same_data(*stream_, "training data");
  const int64_t per_epoch = stream_->steps_per_epoch();
  if (per_epoch == 0) {
    fail<UsageError>("train",
                     "an epoch of {} rows has no full batch of {} rows and "
                     "dataloader_drop_last leaves the rest out; try a smaller batch size",
                     stream_->num_rows(), stream_options(true).layout.step_samples());
  }
  check_best_metric(arguments_.metric_for_best_model, make_scorer_);
  best_.find_direction((make_scorer_ ? make_scorer_() : nullptr).get());
  state_ = {};
  state_.num_rows = stream_->num_rows();
  state_.step_samples = stream_options(true).layout.step_samples();
  state_.data_seed = stream_options(true).seed;
  state_.data_order = stream_->order();
  state_.last_step_position = (per_epoch - 1) * state_.step_samples;
  state_.encoding = checkpoints_->encoding();
  state_.optimizer = strategy_->replica().flat().optimizer().name();
  if (arguments_.max_steps > 0) {
    state_.max_steps = arguments_.max_steps;
    state_.num_train_epochs =
        std::ceil(static_cast<double>(arguments_.max_steps) / static_cast<double>(per_epoch));
  } else {
    state_.num_train_epochs = arguments_.num_train_epochs;
    state_.max_steps = static_cast<int64_t>(
        std::ceil(arguments_.num_train_epochs * static_cast<double>(per_epoch)));
  }
  state_.earlier_updates = earlier_updates_;
  state_.job_id = job_.environment.job_id;
  sum_what_it_reads();
  const auto other_rate = resume();
  // Dropout of torch::nn: other masks on each rank, and after a resume.
  const auto own = static_cast<uint64_t>(strategy_->first_rank());
  seed_torch(hash_combine(hash_combine(static_cast<uint64_t>(arguments_.seed), own),
                          static_cast<uint64_t>(state_.global_step)));
  stopped_early_ = best_.out_of_patience(state_) && state_.global_step < state_.max_steps;
  RunInfo info = describe();
  if (!other_rate.empty()) info.warnings.push_back(other_rate);
  // What is wrong with the evaluation data should show now.
  if (eval_data_) {
    auto first = eval_data_->open(stream_options(false));
    check_same_data(*first, "evaluation data");
    first->start(0, 0);
    first->next();
  }
  callbacks_.notify([&](Callback& callback) { callback.on_train_begin(info); });
}

/// For whoever resumes: other data or another base than this run's are told then.
void Trainer::Impl::sum_what_it_reads() {
  if (arguments_.output.dir.empty()) return;
  const Json first = comm::ask_main(
      job_.world(), "read the first rows",
      [&] { return sum_of_first_rows(*train_data_, stream_options(true)); }, comm::Lasts::Long);
  state_.first_rows_sum = value_from<uint64_t>(first);
  state_.base_sum = sum_of_base(*strategy_);
}

/// Goes on from a checkpoint where that is asked for. Returns a sentence where more steps than the
/// checkpoint's run was to have raise the learning rate again.
std::string Trainer::Impl::resume() {
  auto saved = checkpoints_->resume(state_);
  if (!saved) return "";
  if (best_.forget_other_metric(*saved)) {
    callbacks_.say(
        fmt::format("warning: {} counted another metric; the best evaluation starts anew with {}",
                    checkpoints_->resumed_from(), best_.full_name()));
  }
  const auto fresh = std::exchange(state_, *saved);
  const double rate_before = learning_rate(std::max<int64_t>(0, state_.updates() - 1));
  state_.max_steps = fresh.max_steps;
  if (state_.step_samples != fresh.step_samples && state_.step_samples > 0) {
    const int64_t rows = std::max<int64_t>(0, state_.num_rows - state_.epoch_position);
    const int64_t rest = arguments_.dataloader_drop_last ? 0 : fresh.step_samples - 1;
    const int64_t left = (rows + rest) / fresh.step_samples;  // steps of this epoch
    state_.steps_beyond =
        state_.global_step + left - (state_.epoch_index + 1) * stream_->steps_per_epoch();
  }
  if (arguments_.max_steps <= 0) state_.max_steps += state_.steps_beyond;
  state_.num_train_epochs = fresh.num_train_epochs;
  state_.step_samples = fresh.step_samples;
  state_.data_order = fresh.data_order;
  state_.last_step_position = fresh.last_step_position;
  state_.encoding = fresh.encoding;
  state_.first_rows_sum = fresh.first_rows_sum;
  state_.base_sum = fresh.base_sum;
  state_.job_id = fresh.job_id;
  const double rate = learning_rate(state_.updates());
  if (state_.max_steps <= saved->max_steps || rate <= 1.01 * rate_before) return "";
  return fmt::format(
      "the learning rate rises from {:.2e} to {:.2e}: its schedule now ends at step {} instead of "
      "{}; a run that is to be trained further can have --lr_scheduler_type constant",
      rate_before, rate, state_.max_steps, saved->max_steps);
}

/// Before hours of work come to the first checkpoint that has no room.
std::string Trainer::Impl::lack_of_space() const {
  if (!job_.is_main() || ended()) return "";
  const int64_t steps = state_.max_steps - state_.global_step;
  const auto& when = arguments_.save_strategy;
  const int64_t between = when == "steps"   ? every(arguments_.save_steps)
                          : when == "epoch" ? std::max<int64_t>(1, stream_->steps_per_epoch())
                                            : steps;
  return checkpoints_->lack_of_space(when == "no" ? 0 : (steps + between - 1) / between);
}

RunInfo Trainer::Impl::describe() {
  RunInfo info;
  info.job = &job_;
  info.arguments = &arguments_;
  info.num_examples = state_.num_rows;
  const auto& flat = strategy_->replica().flat();
  info.num_parameters = flat.num_parameters();
  info.num_trainable_parameters = flat.num_trainable_parameters();
  for (const auto* replica : strategy_->replicas()) {
    info.memory = largest(info.memory, replica->memory());
    info.most_gathered = std::max(info.most_gathered, replica->most_gathered());
  }
  const auto& stages = strategy_->replica().plan().stages;
  for (const auto& stage : stages) {
    info.stage_bytes.push_back(stage.memory.parameters + stage.memory.gradients +
                               stage.memory.optimizer);
  }
  info.pipeline = parallel::pipeline_text(strategy_->replica().plan(),
                                          strategy_->replica().options().parallelism);
  const int tensor_ranks = job_.groups.tensor.size();
  if (!info.pipeline.empty() || tensor_ranks > 1) {  // of the rank that holds most
    info.memory = largest({info.memory}, job_.world()).front();
    auto most = at::tensor({info.most_gathered}, at::kLong);
    job_.world().all_reduce(most, comm::ReduceOp::Max, "reduce gathered weights");
    info.most_gathered = comm::item<int64_t>(most);
  }
  info.per_device_batch = per_device(arguments_.per_device_train_batch_size);
  info.total_batch = state_.step_samples;
  info.steps_per_epoch = stream_->steps_per_epoch();
  info.max_steps = state_.max_steps;
  info.first_step = state_.global_step;
  info.resumed_from = checkpoints_->resumed_from();
  info.placements = job::gather_placements(job_);
  if (!job_.in_threads() && job_.devices.at(0).is_cpu()) {
    std::vector<std::string> hosts;
    for (const auto& placement : info.placements) hosts.push_back(placement.host);
    slow_ranks_.emplace(job_.groups, std::move(hosts));
  }
  info.shares = stream_->partition_summary();
  info.warnings = job_.warnings;
  const auto warn = [&](const std::vector<std::string>& more) {
    info.warnings.insert(info.warnings.end(), more.begin(), more.end());
  };
  warn(job::offload_warnings(arguments_.parallel));
  warn(tensor_warnings(job_.groups.mesh, info.placements));
  const bool shares = flat.layout().options().num_parts > 1 || flat.offload() != nullptr;
  if ((!info.pipeline.empty() || tensor_ranks > 1) && arguments_.parallel.parallelism.zero >= 2 &&
      shares) {
    info.warnings.push_back(fmt::format(
        "zero = {} with {}: {} each micro-batch, and {}; try --zero 1, which sends as "
        "much as without ZeRO",
        arguments_.parallel.parallelism.zero, info.pipeline.empty() ? "tensor ranks" : "a pipeline",
        arguments_.parallel.parallelism.zero == 3 ? "weights are gathered and gradients reduced for"
                                                  : "gradients are reduced after",
        info.pipeline.empty() ? "tensor ranks already split what that would save"
                              : "a pipeline needs many of them"));
  }
  if (arguments_.parallel.parallelism.zero > 0 && !shares) {
    info.warnings.push_back(
        fmt::format("zero = {} shards nothing {}", arguments_.parallel.parallelism.zero,
                    job_.num_devices() == 1 ? "on one rank; try convoy launch -n 2 train ..."
                    : job_.stages > 1       ? "where each stage has one rank; try --replicas 2"
                    : job_.num_ranks() == 1
                        ? fmt::format("where {}; try --nproc {}",
                                      tensor_ranks > 1 ? "no two ranks have the same weights"
                                                       : "each stage has one rank",
                                      2 * job_.world().size())
                        : fmt::format("with one rank per state replica: shard_ranks = {}; try all",
                                      arguments_.parallel.shard_ranks)));
  } else if (arguments_.parallel.parallelism.zero == 3 && info.most_gathered == 0) {
    info.warnings.push_back(
        fmt::format("zero = 3 shards no weights: all buckets of the model are below zero_keep_mb = "
                    "{}; try a smaller one, or --zero 2",
                    arguments_.parallel.parallelism.keep_bytes >> 20));
  } else if (arguments_.parallel.parallelism.zero == 3 && info.pipeline.empty() &&
             reads_all(flat.layout())) {
    info.warnings.push_back(
        "zero = 3 gathers the whole model at once: it is one block, or smaller than bucket_cap_mb; "
        "try a smaller --bucket_cap_mb, or give the model as a list of blocks");
  }
  warn(stream_->warnings());
  if (auto text = lack_of_space(); !text.empty()) info.warnings.push_back(std::move(text));
  warn(arguments_.warnings(state_.max_steps));
  if (ended()) {
    info.warnings.push_back(
        fmt::format("nothing is left to train: {} is at step {} of {}{}; try more {}",
                    info.resumed_from.empty() ? "the run" : info.resumed_from, state_.global_step,
                    state_.max_steps, stopped_early_ ? ", where it stopped early" : "",
                    stopped_early_ ? "early_stopping_patience" : "num_train_epochs or max_steps"));
  }
  return info;
}

}  // namespace convoy::train
