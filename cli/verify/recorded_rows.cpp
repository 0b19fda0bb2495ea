#include "cli/verify/recorded_rows.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <utility>

#include "convoy/checkpoint/dtypes.h"
#include "convoy/formats/safetensors.h"

namespace convoy::cli {

namespace {

/// Name that Hugging Face's models have for an input.
std::string theirs_of(const std::string& name) {
  if (name == "key_mask") return "attention_mask";
  return name == "positions" ? "position_ids" : name;
}

}  // namespace

struct RecordedRows::Record {
  tasks::Run run;
  uint64_t seed = 0;
  int64_t steps = 0;
  std::vector<nn::NamedTensor> rows;
  int64_t seen = 0;                     // steps
  int64_t num_streams = 0, stream = 0;  // that were opened; the one that `rows` are of

  /// Adds the rows of a step. Another stream replaces them, as training reads all of its data once
  /// before, to sum them up.
  void add(const dataset::StepBatch& batch, int64_t of_stream) {
    if (of_stream != stream) {
      rows.clear();
      seen = 0;
      stream = of_stream;
    }
    if (seen == steps) return;
    for (size_t m = 0; m < batch.micro_batches.size(); ++m) {
      const auto& micro_batch = batch.micro_batches[m];
      if (micro_batch.empty()) continue;
      const nn::Context context{.seed = seed, .step = seen, .samples = micro_batch.samples};
      for (const auto& [name, tensor] : run.labelled(micro_batch.inputs, context)) {
        const auto theirs = theirs_of(name);
        rows.push_back({fmt::format("{}.{}.{}", seen, m, theirs),
                        (tensor.is_floating_point() ? tensor : tensor.to(at::kLong)).contiguous()});
      }
    }
    ++seen;
  }
};

namespace {

/// Shows each step of a stream to `see`.
class SeenStream : public dataset::BatchStream {
 public:
  using See = std::function<void(const dataset::StepBatch&)>;
  using OpenSee = std::function<See()>;
  SeenStream(std::unique_ptr<dataset::BatchStream> stream, See see)
      : stream_(std::move(stream)), see_(std::move(see)) {}

  int64_t num_rows() const override { return stream_->num_rows(); }
  int64_t steps_per_epoch() const override { return stream_->steps_per_epoch(); }
  void start(int64_t epoch, int64_t s0) override { stream_->start(epoch, s0); }
  std::optional<dataset::StepBatch> next() override {
    auto out = stream_->next();
    if (out) see_(*out);
    return out;
  }
  double wait_seconds() const override { return stream_->wait_seconds(); }
  std::string order() const override { return stream_->order(); }

 private:
  std::unique_ptr<dataset::BatchStream> stream_;
  See see_;
};

class SeenData : public dataset::Dataset {
 public:
  SeenData(std::shared_ptr<dataset::Dataset> data, SeenStream::OpenSee see)
      : data_(std::move(data)), see_(std::move(see)) {}

  std::unique_ptr<dataset::BatchStream> open(const data::StreamOptions& options) const override {
    return std::make_unique<SeenStream>(data_->open(options), see_());
  }
  std::vector<int64_t> row_lengths() const override { return data_->row_lengths(); }
  parallel::MicroBatch of_rows(const std::vector<int64_t>& rows) const override {
    return data_->of_rows(rows);
  }

 private:
  std::shared_ptr<dataset::Dataset> data_;
  SeenStream::OpenSee see_;
};

}  // namespace

RecordedRows::RecordedRows(tasks::Run run, uint64_t seed, int64_t steps)
    : record_(std::make_shared<Record>()) {
  record_->run = std::move(run);
  record_->seed = seed;
  record_->steps = steps;
}

std::shared_ptr<dataset::Dataset> RecordedRows::data() const {
  return std::make_shared<SeenData>(record_->run.train_data, [record = record_] {
    return [record, stream = ++record->num_streams](const dataset::StepBatch& batch) {
      record->add(batch, stream);
    };
  });
}

void RecordedRows::write(const std::filesystem::path& file) const {
  std::vector<formats::TensorView> views;
  for (const auto& [name, tensor] : record_->rows) {
    views.push_back({.name = name,
                     .dtype = checkpoint::name_of(tensor.scalar_type(), name),
                     .shape = tensor.sizes().vec(),
                     .data = tensor.const_data_ptr(),
                     .bytes = tensor.nbytes()});
  }
  formats::write_safetensors(file, views);
}

}  // namespace convoy::cli
