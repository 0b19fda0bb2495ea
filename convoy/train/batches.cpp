#include <ATen/ATen.h>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/data/loader.h"
#include "convoy/data/order.h"
#include "convoy/train/batches.h"

namespace convoy::train {

namespace {

using MakeBatch = std::function<nn::Bundle(const std::vector<int64_t>&)>;

/// Positions of the longest kind of input; rows where there is no such thing.
int64_t num_tokens(const nn::Bundle& inputs) {
  int64_t most = 0;
  for (const auto& [name, tensor] : inputs) {
    if (tensor.dim() > 0)
      most = std::max(most, tensor.dim() > 1 ? tensor.size(0) * tensor.size(1) : tensor.size(0));
  }
  return most;
}

using RowLengths = std::shared_ptr<const std::vector<int64_t>>;

class MapStream : public BatchStream {
 public:
  MapStream(int64_t num_rows, MakeBatch batch, RowLengths row_lengths, StreamOptions options)
      : num_rows_(num_rows),
        batch_(std::move(batch)),
        row_lengths_(std::move(row_lengths)),
        options_(options) {
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

  std::string order() const override { return order_->text(); }

  void start(int64_t epoch, int64_t s0) final {
    const auto options = data::OrderOptions::of_all_rows(options_.seed, epoch, options_.shuffle);
    order_ = std::make_unique<data::EpochOrder>(std::vector<int64_t>{num_rows_}, options);
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
        rows.push_back(order_->row_of(sample));
        offsets.push_back(sample - step.s0);
      }
      step.micro_batches.push_back({made(rows), at::tensor(offsets, at::kLong), lengths_of(rows)});
      step.num_tokens += num_tokens(step.micro_batches.back().inputs);
    }
    position_ = step.end;
    return step;
  }

 private:
  /// Undefined where all are alike.
  at::Tensor lengths_of(const std::vector<int64_t>& rows) const {
    if (row_lengths_->empty()) return {};
    std::vector<int64_t> out;
    for (const int64_t row : rows) out.push_back((*row_lengths_)[static_cast<size_t>(row)]);
    return at::tensor(out, at::kLong);
  }
  nn::Bundle made(const std::vector<int64_t>& rows) const {
    auto out = batch_(rows);
    for (const auto& [name, tensor] : out) {
      if (tensor.dim() == 0 || tensor.size(0) == std::ssize(rows)) continue;
      fail<UsageError>("data", "the batch's '{}' has {} for {} that were asked for", name,
                       plural(tensor.size(0), "row"), rows.size());
    }
    return out;
  }

  int64_t num_rows_;
  MakeBatch batch_;
  RowLengths row_lengths_;
  StreamOptions options_;
  std::unique_ptr<data::EpochOrder> order_;
  int64_t position_ = 0;
};

class MapDataset : public Dataset {
 public:
  MapDataset(int64_t num_rows, MakeBatch batch, std::vector<int64_t> row_lengths)
      : num_rows_(num_rows),
        batch_(std::move(batch)),
        row_lengths_(std::make_shared<const std::vector<int64_t>>(std::move(row_lengths))) {
    if (!row_lengths_->empty() && std::ssize(*row_lengths_) != num_rows_) {
      fail<UsageError>("data", "row_lengths has {} numbers for {} rows; expected one for each",
                       row_lengths_->size(), num_rows_);
    }
  }

  std::unique_ptr<BatchStream> open(const StreamOptions& options) const override {
    return std::make_unique<MapStream>(num_rows_, batch_, row_lengths_, options);
  }
  std::vector<int64_t> row_lengths() const override { return *row_lengths_; }
  parallel::MicroBatch of_rows(const std::vector<int64_t>& rows) const override {
    return {batch_(rows), at::arange(std::ssize(rows), at::kLong)};
  }

 private:
  int64_t num_rows_;
  MakeBatch batch_;
  RowLengths row_lengths_;
};

}  // namespace

std::shared_ptr<Dataset> make_map_dataset(int64_t num_rows, MakeBatch batch,
                                          std::vector<int64_t> row_lengths) {
  if (!batch) fail<UsageError>("data", "make_map_dataset got no function that makes batches");
  return std::make_shared<MapDataset>(num_rows, std::move(batch), std::move(row_lengths));
}

}  // namespace convoy::train
