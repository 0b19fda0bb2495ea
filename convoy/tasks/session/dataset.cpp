#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <limits>
#include <mutex>
#include <utility>

#include "convoy/tasks/session/dataset.h"

namespace convoy::tasks {

namespace {

/// Tensor that shares the vector's memory.
template <class T>
at::Tensor adopt(std::vector<T>&& values, at::IntArrayRef shape) {
  auto* keeper = new std::vector<T>(std::move(values));
  return at::from_blob(
      keeper->data(), shape, [keeper](void*) { delete keeper; },
      c10::CppTypeToScalarType<T>::value);
}

/// Ids [rows, longest] below `num_ids` of the lists of each row's owner, without its target; of the
/// row itself for an owner without a list.
at::Tensor seen_before(const data::LoadedRows& micro_batch, const SeenBefore& seen, int64_t num_ids,
                       bool has_target) {
  const auto& owners = micro_batch.columns.at(seen.owner).ints;
  const auto& counts = micro_batch.columns.at(seen.count).ints;
  const auto owner_of = [&](int64_t row) { return owners[static_cast<size_t>(row)]; };
  const auto list_of = [&](int64_t row) {
    const auto count = counts[static_cast<size_t>(row)];
    return seen.lists->of(owner_of(row), count - (has_target ? 1 : 0));
  };
  int64_t longest = std::max<int64_t>(1, micro_batch.whole_length);
  for (int64_t row = 0; row < micro_batch.rows; ++row) {
    longest = std::max<int64_t>(longest, std::ssize(list_of(row)));
  }
  auto out = at::zeros({micro_batch.rows, longest}, at::kLong);
  for (int64_t row = 0; row < micro_batch.rows; ++row) {
    auto* ids = out.data_ptr<int64_t>() + row * longest;
    const auto own = micro_batch.whole.begin() + row * micro_batch.whole_length;
    if (!seen.lists->has(owner_of(row))) std::copy_n(own, micro_batch.whole_length, ids);
    for (const int32_t id : list_of(row)) *ids++ = id < num_ids ? id : 0;
  }
  return out;
}

parallel::MicroBatch to_tensors(data::LoadedRows&& micro_batch) {
  parallel::MicroBatch out;
  for (auto& [name, column] : micro_batch.columns) {
    std::vector<int64_t> shape{micro_batch.rows};
    if (column.is_list) shape.push_back(micro_batch.length);
    if (column.width > 0) shape.push_back(column.width);
    out.inputs[name] = column.kind == data::Column::Int64 ? adopt(std::move(column.ints), shape)
                                                          : adopt(std::move(column.floats), shape);
  }
  if (micro_batch.whole_length > 0) {
    out.inputs[models::kExcluded] =
        adopt(std::move(micro_batch.whole), {micro_batch.rows, micro_batch.whole_length});
  }
  if (!micro_batch.missed.empty()) {
    out.inputs[models::kMissed] = adopt(std::move(micro_batch.missed), {micro_batch.rows});
  }
  out.row_lengths = adopt(std::move(micro_batch.lengths), {micro_batch.rows});
  out.inputs["lengths"] = out.row_lengths;
  out.samples = adopt(std::move(micro_batch.sample_offset), {micro_batch.rows});
  return out;
}

class SessionStream : public dataset::BatchStream {
 public:
  using ToTensors = std::function<parallel::MicroBatch(data::LoadedRows&&)>;
  SessionStream(data::SessionLoader loader, std::vector<std::string> warnings, ToTensors to_tensors)
      : loader_(std::move(loader)),
        warnings_(std::move(warnings)),
        to_tensors_(std::move(to_tensors)) {
    const auto& more = loader_.warnings();
    warnings_.insert(warnings_.end(), more.begin(), more.end());
  }

  int64_t num_rows() const override { return loader_.num_rows(); }
  int64_t steps_per_epoch() const override { return loader_.steps_per_epoch(); }
  void start(int64_t epoch, int64_t s0) override { loader_.start(epoch, s0); }

  std::optional<dataset::StepBatch> next() override {
    auto batch = loader_.next();
    if (!batch) return std::nullopt;
    dataset::StepBatch step;
    step.s0 = batch->s0;
    step.end = batch->end;
    for (auto& micro_batch : batch->micro_batches) {
      for (const int64_t length : micro_batch.lengths) step.num_tokens += length;
      step.num_samples.push_back(micro_batch.num_samples);
      step.micro_batches.push_back(micro_batch.num_samples == 0
                                       ? parallel::MicroBatch()
                                       : to_tensors_(std::move(micro_batch)));
    }
    return step;
  }

  double wait_seconds() const override { return loader_.wait_seconds(); }
  std::vector<data::RankShare> partition_summary() const override {
    return loader_.partition_summary();
  }
  std::string order() const override { return loader_.order(); }
  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  data::SessionLoader loader_;
  std::vector<std::string> warnings_;
  ToTensors to_tensors_;
};

class SessionDataset : public dataset::Dataset {
 public:
  SessionDataset(data::ParquetFiles dataset, data::LoaderOptions options,
                 std::vector<std::string> warnings, SeenBefore seen)
      : dataset_(std::move(dataset)),
        options_(std::move(options)),
        warnings_(std::move(warnings)),
        seen_(std::move(seen)) {}

  std::unique_ptr<dataset::BatchStream> open(const data::StreamOptions& options) const override {
    auto own = options_;
    static_cast<data::StreamOptions&>(own) = options;
    if (!options.shuffle) own.partition = data::Partition::Rows;
    return std::make_unique<SessionStream>(
        data::SessionLoader(dataset_, own), warnings_,
        [this](data::LoadedRows&& micro_batch) { return with_seen(std::move(micro_batch)); });
  }
  std::vector<int64_t> row_lengths() const override {
    std::call_once(read_lengths_, [&] { lengths_ = data::row_lengths(dataset_, options_); });
    return lengths_;
  }
  parallel::MicroBatch of_rows(const std::vector<int64_t>& rows) const override {
    return with_seen(data::micro_batch_of(dataset_, options_, rows));
  }

 private:
  parallel::MicroBatch with_seen(data::LoadedRows&& micro_batch) const {
    if (!seen_.lists) return to_tensors(std::move(micro_batch));
    const auto num_ids =
        options_.known.column.empty() ? std::numeric_limits<int64_t>::max() : options_.known.size();
    auto lists = seen_before(micro_batch, seen_, num_ids, options_.last_is_target);
    auto out = to_tensors(std::move(micro_batch));
    out.inputs[models::kExcluded] = std::move(lists);
    return out;
  }

  data::ParquetFiles dataset_;
  data::LoaderOptions options_;
  std::vector<std::string> warnings_;
  SeenBefore seen_;
  mutable std::once_flag read_lengths_;
  mutable std::vector<int64_t> lengths_;
};

}  // namespace

std::shared_ptr<dataset::Dataset> make_session_dataset(data::ParquetFiles dataset,
                                                       data::LoaderOptions options,
                                                       std::vector<std::string> warnings,
                                                       SeenBefore seen) {
  return std::make_shared<SessionDataset>(std::move(dataset), std::move(options),
                                          std::move(warnings), std::move(seen));
}

std::shared_ptr<dataset::Dataset> make_random_sessions(const models::SessionConfig& model) {
  constexpr int64_t kRows = 1 << 20;
  constexpr int64_t kSecondsApart = 60;
  const auto draw = [model](const std::vector<int64_t>& rows) {
    const int64_t number = std::ssize(rows), length = model.max_length;
    auto generator = at::detail::createCPUGenerator(static_cast<uint64_t>(rows.front()));
    nn::Bundle out;
    for (const auto& feature : model.features) {
      std::vector<int64_t> shape{number};
      if (feature.is_list) shape.push_back(length);
      if (feature.width > 0) shape.push_back(feature.width);
      out[feature.name] = feature.categorical
                              ? at::randint(1, feature.cardinality, shape, generator, at::kLong)
                              : at::rand(shape, generator);
    }
    for (const auto& target : model.targets) {
      out[target.column] = at::randint(0, 2, {number}, generator).to(at::kFloat);
    }
    const auto& [weights, of_values] = model.event_weights;
    if (!weights.empty() && !out.contains(weights)) {
      out[weights] = of_values.empty() ? at::rand({number, length}, generator)
                                       : at::randint(0, std::ssize(of_values), {number, length},
                                                     generator, at::kLong);
    }
    if (!model.time_feature.empty()) {
      const auto times = at::arange(length, at::kLong) * kSecondsApart;
      out[model.time_feature] = times.expand({number, length}).contiguous();
    }
    out["lengths"] = at::full({number}, length, at::kLong);
    return out;
  };
  return dataset::make_map_dataset(kRows, draw);
}

}  // namespace convoy::tasks
