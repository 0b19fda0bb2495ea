#include <algorithm>
#include <cmath>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/random.h"
#include "convoy/comm/agree.h"
#include "convoy/job/job_id.h"
#include "convoy/train/loop/describe.h"
#include "convoy/train/loop/due.h"
#include "convoy/train/loop/results.h"
#include "convoy/train/loop/torch_seed.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/run_sums.h"

// Work before the first step of a training.
namespace convoy::train {

namespace {

/// Sets the checksums of data and base, by which a resumed run notices others.
void sum_what_it_reads(RunContext& run, const dataset::Dataset& data) {
  if (!run.keeps_sums()) return;
  const Json first = comm::ask_main(
      run.job.world(), "read the first rows",
      [&] { return sum_of_first_rows(data, stream_options(run, true)); }, comm::Lasts::Long);
  run.state.first_rows_sum = value_from<uint64_t>(first);
  run.state.base_sum = sum_of_base(*run.strategy);
}

/// Number of steps by which a run gets longer, or shorter, with another batch from here on.
int64_t steps_beyond(const TrainerState& saved, int64_t step_samples, int64_t steps_per_epoch,
                     bool drop_last) {
  const int64_t rows = std::max<int64_t>(0, saved.num_rows - saved.epoch_position);
  const int64_t rest = drop_last ? 0 : step_samples - 1;
  const int64_t left = (rows + rest) / step_samples;  // steps of this epoch
  return saved.global_step + left - (saved.epoch_index + 1) * steps_per_epoch;
}

/// State of a run that begins anew.
TrainerState fresh_state(const RunContext& run, const dataset::BatchStream& stream,
                         const Checkpoints& checkpoints) {
  const auto& arguments = run.arguments;
  const auto options = stream_options(run, true);
  const int64_t per_epoch = stream.steps_per_epoch();
  TrainerState state;
  state.num_rows = stream.num_rows();
  state.step_samples = options.layout.step_samples();
  state.data_seed = options.seed;
  state.data_order = stream.order();
  state.last_step_position = (per_epoch - 1) * state.step_samples;
  state.encoding = checkpoints.encoding();
  state.optimizer = run.strategy->replica().flat().optimizer().name();
  if (arguments.max_steps > 0) {
    state.max_steps = arguments.max_steps;
    state.num_train_epochs =
        std::ceil(static_cast<double>(arguments.max_steps) / static_cast<double>(per_epoch));
  } else {
    state.num_train_epochs = arguments.num_train_epochs;
    state.max_steps = static_cast<int64_t>(
        std::ceil(arguments.num_train_epochs * static_cast<double>(per_epoch)));
  }
  state.job_id = run.job.environment.job_id;
  if (run.job.environment.job_start > 0) state.job_began = beginning_in_job(run);
  return state;
}

/// Resumes from a checkpoint where that is asked for. Returns a sentence where more steps than the
/// checkpoint's run had raise the learning rate again.
std::string resume(RunContext& run, const dataset::BatchStream& stream, Checkpoints& checkpoints,
                   Evaluations& evaluations) {
  const auto& arguments = run.arguments;
  auto& state = run.state;
  auto saved = checkpoints.resume(state);
  if (!saved) return "";
  if (const auto text = evaluations.take_up(*saved, checkpoints.resumed_from()); !text.empty()) {
    run.callbacks.say(text);
  }
  const auto fresh = std::exchange(state, *saved);
  const double rate_before =
      learning_rate(arguments, state, std::max<int64_t>(0, state.updates() - 1));
  state.max_steps = fresh.max_steps;
  if (state.step_samples != fresh.step_samples && state.step_samples > 0) {
    state.steps_beyond = steps_beyond(state, fresh.step_samples, stream.steps_per_epoch(),
                                      arguments.dataloader_drop_last);
  }
  if (arguments.max_steps <= 0) state.max_steps += state.steps_beyond;
  state.num_train_epochs = fresh.num_train_epochs;
  state.step_samples = fresh.step_samples;
  state.data_order = fresh.data_order;
  state.last_step_position = fresh.last_step_position;
  state.encoding = fresh.encoding;
  state.first_rows_sum = fresh.first_rows_sum;
  state.base_sum = fresh.base_sum;
  const bool same_job = fresh.job_began > 0 && job::is_same_job(state.job_id, fresh.job_id);
  if (!same_job) state.micro_batch_rows = 0;
  if (!same_job || state.job_began == 0) {
    state.useful_seconds = 0;
    state.job_began = fresh.job_began;
  }
  state.job_id = fresh.job_id;
  const double rate = learning_rate(arguments, state, state.updates());
  if (state.max_steps <= saved->max_steps || rate <= 1.01 * rate_before) return "";
  return fmt::format(
      "the learning rate rises from {:.2e} to {:.2e}: its schedule now ends at step {} instead of "
      "{}; a run that is to be trained further can have --lr_scheduler_type constant",
      rate_before, rate, state.max_steps, saved->max_steps);
}

}  // namespace

void Trainer::Impl::prepare() {
  stream_.open();
  check_same_data(run_, stream_.get(), "training data");
  if (stream_.get().steps_per_epoch() == 0) {
    fail<UsageError>("train",
                     "an epoch of {} rows has no full batch of {} rows and "
                     "dataloader_drop_last leaves the rest out; try a smaller batch size",
                     stream_.get().num_rows(), stream_options(run_, true).layout.step_samples());
  }
  evaluations_.check_metric();
  run_.state = fresh_state(run_, stream_.get(), *checkpoints_);
  run_.state.earlier_updates = earlier_updates_;
  sum_what_it_reads(run_, *train_data_);
  const auto other_rate = resume(run_, stream_.get(), *checkpoints_, evaluations_);
  batch_sizer_.take_up(stream_);
  // Dropout of torch::nn: other masks on each rank, and after a resume.
  const auto& state = run_.state;
  const auto own = static_cast<uint64_t>(run_.strategy->first_rank());
  seed_torch(hash_combine(hash_combine(static_cast<uint64_t>(run_.arguments.seed), own),
                          static_cast<uint64_t>(state.global_step)));
  evaluations_.check_patience();
  RunInfo info = describe(run_, stream_.get(), *checkpoints_, evaluations_.stopped_early());
  if (!ended()) info.memory_copies = checkpoints_->begin_memory_copies(state.global_step);
  if (!other_rate.empty()) info.warnings.push_back(other_rate);
  if (!run_.job.in_threads() && run_.job.devices.at(0).is_cpu()) {
    std::vector<std::string> hosts;
    for (const auto& placement : info.placements) hosts.push_back(placement.host);
    slow_ranks_.emplace(run_.job.groups, std::move(hosts));
  }
  evaluations_.try_data();
  run_.callbacks.notify([&](Callback& callback) { callback.on_train_begin(info); });
}

}  // namespace convoy::train
