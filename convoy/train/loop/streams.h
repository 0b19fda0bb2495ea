#pragma once

#include <memory>
#include <optional>

#include "convoy/dataset/batches.h"
#include "convoy/train/loop/run_context.h"

namespace convoy::train {

/// Rows of a micro-batch of one device. Under DataParallel, whose options count all devices, a part
/// of `configured`; throws UsageError where that does not divide.
int64_t per_device_rows(const RunContext& run, int64_t configured);

/// Options of a stream by which this process reads its rows of a data set.
data::StreamOptions stream_options(const RunContext& run, bool training);

/// Throws UsageError where ranks read different data: they would end in a collective that one rank
/// does not call. `what` names the data. Collective.
void check_same_data(const RunContext& run, const dataset::BatchStream& stream, const char* what);

/// Causes of rows without a target, and what to try.
std::string no_targets_hint();

/// Rows of the training, step by step, on this process.
class TrainingStream {
 public:
  /// `data` may be null; then nothing else may be called. Both must outlive it.
  TrainingStream(const RunContext& run, const dataset::Dataset* data) : run_(run), data_(data) {}

  /// Opens the data for a training that begins.
  void open();
  /// Opens it anew after another micro-batch size was set, at the state's place in the epoch.
  void reopen();
  /// Moves the stream to the state's place in its epoch.
  void start() { stream_->start(run_.state.epoch_index, run_.state.epoch_position); }
  /// Next step's rows of this process; nothing at the end of an epoch. Throws FileError where the
  /// data ends too early.
  std::optional<dataset::StepBatch> next();

  const dataset::BatchStream& get() const { return *stream_; }
  /// Seconds that training waited for data so far.
  double wait_seconds() const { return earlier_wait_ + stream_->wait_seconds(); }

 private:
  const RunContext& run_;
  const dataset::Dataset* data_;
  std::unique_ptr<dataset::BatchStream> stream_;
  double earlier_wait_ = 0;  // of streams before this one
};

}  // namespace convoy::train
