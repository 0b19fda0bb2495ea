#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/loader.h"
#include "convoy/data/mixture.h"
#include "convoy/data/order.h"
#include "convoy/dataset/batches.h"

namespace convoy::dataset {

namespace {

using MakeBatch = std::function<nn::Bundle(const std::vector<int64_t>&)>;

/// Number of positions of the input with the most; of rows where inputs have no positions.
int64_t num_tokens(const nn::Bundle& inputs) {
  int64_t most = 0;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.dim() > 0)
      most = std::max(most, tensor.dim() > 1 ? tensor.size(0) * tensor.size(1) : tensor.size(0));
  }
  return most;
}

/// Samples at random access, and the mixture that they are drawn from, if any.
struct MapRows {
  int64_t count = 0;
  MakeBatch batch;
  std::vector<int64_t> row_lengths;  // of each row; empty: all are alike
  std::vector<std::string> derived;  // columns
  std::optional<data::Mixture> mixture;

  /// Rows of an epoch.
  int64_t num_rows() const { return mixture ? mixture->num_rows() : count; }
  int64_t row_of(uint64_t seed, int64_t epoch, int64_t place) const {
    return mixture ? mixture->row_of(seed, epoch, place) : place;
  }
};
using MapRowsPtr = std::shared_ptr<const MapRows>;

class MapStream : public BatchStream {
 public:
  MapStream(MapRowsPtr rows, data::StreamOptions options)
      : rows_(std::move(rows)), num_rows_(rows_->num_rows()), options_(options) {
    data::check_layout(options_.layout);
    if (num_rows_ < 1) fail<UsageError>("data", "the data set is empty; expected at least one row");
    if (options_.every_rank_needs_rows && num_rows_ < options_.layout.world) {
      fail<UsageError>("data",
                       "{} data-parallel ranks share {}; expected at least one row for each; try "
                       "fewer ranks",
                       options_.layout.world, plural(num_rows_, "row"));
    }
    start(0, 0);
  }

  int64_t num_rows() const override { return num_rows_; }
  int64_t steps_per_epoch() const override {
    return data::steps_per_epoch(num_rows_, options_.layout, options_.drop_last);
  }

  std::string order() const override {
    const auto& mixture = rows_->mixture;
    return order_->text() + (mixture ? " of " + mixture->identity() : "");
  }

  void start(int64_t epoch, int64_t s0) final {
    const auto options = data::OrderOptions::of_all_rows(options_.seed, epoch, options_.shuffle);
    order_ = std::make_unique<data::EpochOrder>(std::vector<int64_t>{num_rows_}, options);
    epoch_ = epoch;
    position_ = s0;
  }

  std::optional<StepBatch> next() override {
    const auto& layout = options_.layout;
    StepBatch step;
    step.s0 = position_;
    step.end = std::min(num_rows_, position_ + layout.step_samples());
    if (step.s0 >= num_rows_) return std::nullopt;
    if (options_.drop_last && step.end - step.s0 < layout.step_samples()) return std::nullopt;
    for (int64_t m = 0; m < layout.accumulation; ++m) {
      auto samples = data::micro_batch_samples(layout, step.s0, step.end, m);
      step.num_samples.push_back(static_cast<int64_t>(samples.size()));
      if (samples.empty()) {
        step.micro_batches.emplace_back();
        continue;
      }
      std::vector<int64_t> rows, offsets;
      for (int64_t sample : samples) {
        rows.push_back(rows_->row_of(options_.seed, epoch_, order_->row_of(sample)));
        offsets.push_back(sample - step.s0);
      }
      step.micro_batches.push_back({made(rows), at::tensor(offsets, at::kLong), lengths_of(rows)});
      step.micro_batches.back().derived = rows_->derived;
      step.num_tokens += num_tokens(step.micro_batches.back().inputs);
    }
    position_ = step.end;
    return step;
  }

 private:
  /// Lengths of the rows; undefined where all are equal.
  at::Tensor lengths_of(const std::vector<int64_t>& rows) const {
    if (rows_->row_lengths.empty()) return {};
    std::vector<int64_t> out;
    for (const int64_t row : rows) out.push_back(rows_->row_lengths[static_cast<size_t>(row)]);
    return at::tensor(out, at::kLong);
  }
  nn::Bundle made(const std::vector<int64_t>& rows) const {
    auto out = rows_->batch(rows);
    for (const auto& [name, tensor] : out) {
      if (tensor.dim() == 0 || tensor.size(0) == std::ssize(rows)) continue;
      fail<UsageError>("data", "the batch's '{}' has {} for {} that were asked for", name,
                       plural(tensor.size(0), "row"), rows.size());
    }
    return out;
  }

  MapRowsPtr rows_;
  int64_t num_rows_;
  data::StreamOptions options_;
  std::unique_ptr<data::EpochOrder> order_;
  int64_t epoch_ = 0, position_ = 0;
};

class MapDataset : public Dataset {
 public:
  explicit MapDataset(MapRows rows) : rows_(std::make_shared<const MapRows>(std::move(rows))) {
    if (!rows_->batch) {
      fail<UsageError>("data", "a data set got no function that makes batches");
    }
    if (!rows_->row_lengths.empty() && std::ssize(rows_->row_lengths) != rows_->count) {
      fail<UsageError>("data", "row_lengths has {} numbers for {} rows; expected one for each",
                       rows_->row_lengths.size(), rows_->count);
    }
  }

  std::unique_ptr<BatchStream> open(const data::StreamOptions& options) const override {
    return std::make_unique<MapStream>(rows_, options);
  }
  std::vector<int64_t> row_lengths() const override { return rows_->row_lengths; }
  parallel::MicroBatch of_rows(const std::vector<int64_t>& rows) const override {
    return {rows_->batch(rows), at::arange(std::ssize(rows), at::kLong)};
  }

 private:
  MapRowsPtr rows_;
};

}  // namespace

std::shared_ptr<Dataset> make_map_dataset(int64_t num_rows, MakeBatch batch,
                                          std::vector<int64_t> row_lengths,
                                          std::vector<std::string> derived) {
  return std::make_shared<MapDataset>(MapRows{num_rows, std::move(batch), std::move(row_lengths),
                                              std::move(derived), std::nullopt});
}

std::shared_ptr<Dataset> make_mixed_dataset(data::Mixture mixture, MakeBatch batch,
                                            std::vector<int64_t> row_lengths,
                                            std::vector<std::string> derived) {
  const int64_t count = mixture.num_source_rows();
  return std::make_shared<MapDataset>(MapRows{count, std::move(batch), std::move(row_lengths),
                                              std::move(derived), std::move(mixture)});
}

}  // namespace convoy::dataset
