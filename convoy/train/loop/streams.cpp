#include "convoy/train/loop/streams.h"

#include <algorithm>
#include <iterator>

#include "convoy/base/error.h"
#include "convoy/base/fault.h"
#include "convoy/comm/agree.h"
#include "convoy/job/run_options.h"

namespace convoy::train {

int64_t per_device_rows(const RunContext& run, int64_t configured) {
  if (!run.job.in_threads() || !run.arguments.parallel.counts_in_total()) return configured;
  const int64_t devices = run.job.num_ranks();
  if (configured % devices != 0) {
    fail<UsageError>("train", "a total batch of {} does not divide over {} devices; try {}",
                     configured, devices, (configured / devices + 1) * devices);
  }
  return configured / devices;
}

data::StreamOptions stream_options(const RunContext& run, bool training) {
  auto options = job::stream_options(run.arguments, training);
  // DataParallel reads the batches of all its devices as one stream, micro-batch by micro-batch.
  // Processes that share a data rank, on another axis of the mesh, read the same rows.
  const int local = run.strategy->num_local_ranks();
  options.layout.world = run.strategy->num_ranks() / local;
  options.layout.rank = run.strategy->first_rank() / local;
  options.layout.accumulation *= local;
  options.layout.per_device_batch = per_device_rows(run, options.layout.per_device_batch);
  return options;
}

void check_same_data(const RunContext& run, const dataset::BatchStream& stream, const char* what) {
  comm::check_agreement(run.job.world(),
                        {fmt::format("{} rows", stream.num_rows()), stream.order()}, what);
}

std::string no_targets_hint() {
  return "expected rows of at least two positions; where tokens are hidden (mlm_probability), none "
         "was drawn: try a larger one, or more rows";
}

void TrainingStream::open() {
  earlier_wait_ = 0;
  stream_ = data_->open(stream_options(run_, true));
  if (!stream_) fail<UsageError>("train", "the data set's open() returned null");
}

void TrainingStream::reopen() {
  const double waited = wait_seconds();
  open();
  earlier_wait_ = waited;
  start();
}

std::optional<dataset::StepBatch> TrainingStream::next() {
  auto batch = fault_ends_data() ? std::nullopt : stream_->next();
  const auto wanted = stream_options(run_, true).layout.accumulation;
  if (batch && std::ssize(batch->micro_batches) < wanted) {
    fail<UsageError>("data", "a step of the data set has {} of {} micro-batches",
                     batch->micro_batches.size(), wanted);
  }
  // Resumed with another total batch, the last full step of an epoch may not fit any more.
  const auto& state = run_.state;
  const auto all = std::min(stream_->steps_per_epoch() * state.step_samples, state.num_rows);
  const auto least = run_.arguments.dataloader_drop_last ? state.step_samples : 1;
  if (!batch && all - state.epoch_position >= least) {
    fail<FileError>("data",
                    "rank {} has no rows left after {} of the {} rows of an epoch; has a file "
                    "changed since the start, or do the ranks read different data?",
                    run_.job.environment.rank, state.epoch_position, state.num_rows);
  }
  return batch;
}

}  // namespace convoy::train
