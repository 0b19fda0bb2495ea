#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/data/stream.h"
#include "convoy/parallel/buffers/types.h"

namespace convoy::data {
class Mixture;
}

namespace convoy::dataset {

/// One step's batches of this process.
struct StepBatch : data::LoadedStep<parallel::MicroBatch> {
  std::vector<int64_t> num_samples;  ///< rows of each micro-batch that are samples
  int64_t num_tokens = 0;            ///< positions that are real
};

/// An epoch, step by step.
class BatchStream {
 public:
  virtual ~BatchStream() = default;
  virtual int64_t num_rows() const = 0;
  virtual int64_t steps_per_epoch() const = 0;
  virtual void start(int64_t epoch, int64_t s0) = 0;
  virtual std::optional<StepBatch> next() = 0;
  /// Seconds that next() has waited for data so far.
  virtual double wait_seconds() const { return 0; }
  virtual std::vector<data::RankShare> partition_summary() const { return {}; }
  /// Text of everything but seed and number of rows that decides the order of the samples.
  virtual std::string order() const { return ""; }
  virtual std::vector<std::string> warnings() const { return {}; }
};

/// A set of samples from which a Trainer draws.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::unique_ptr<BatchStream> open(const data::StreamOptions& options) const = 0;
  /// Positions of each row, where a micro-batch is as long as the longest of its rows; empty: all
  /// rows are alike, or nobody knows.
  virtual std::vector<int64_t> row_lengths() const { return {}; }
  /// Returns the micro-batch of these rows, of a data set that has row_lengths().
  virtual parallel::MicroBatch of_rows(const std::vector<int64_t>& /*rows*/) const { return {}; }
};

/// Samples at random access: `batch(rows)` makes the bundle of those rows, each tensor with one
/// entry per row in its first dimension. Order, ranks and resuming are taken care of.
/// `row_lengths`: see Dataset; `derived`: see MicroBatch.
std::shared_ptr<Dataset> make_map_dataset(
    int64_t num_rows, std::function<nn::Bundle(const std::vector<int64_t>& rows)> batch,
    std::vector<int64_t> row_lengths = {}, std::vector<std::string> derived = {});

/// Makes a data set like make_map_dataset(), of which an epoch takes the rows that `mixture` draws.
/// `batch` gets the numbers of rows over all sources, and row_lengths has one entry for each of
/// them.
std::shared_ptr<Dataset> make_mixed_dataset(
    data::Mixture mixture, std::function<nn::Bundle(const std::vector<int64_t>& rows)> batch,
    std::vector<int64_t> row_lengths = {}, std::vector<std::string> derived = {});

}  // namespace convoy::dataset
