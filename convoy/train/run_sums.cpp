#include "convoy/train/run_sums.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "convoy/base/random.h"
#include "convoy/checkpoint/adapter.h"
#include "convoy/checkpoint/sums.h"

namespace convoy::train {

namespace {

/// Number of positions of each row without padding; empty where there is none.
std::vector<int64_t> real_positions(const parallel::MicroBatch& batch, const nn::Bundle& inputs) {
  auto counts = batch.row_lengths;
  const auto mask = inputs.find("key_mask");
  if (!counts.defined() && mask != inputs.end()) counts = mask->second.sum(1).contiguous();
  if (!counts.defined()) return {};
  const auto* from = counts.const_data_ptr<int64_t>();
  return {from, from + counts.numel()};
}

uint64_t sum_of_bytes(const std::byte* from, size_t count, uint64_t seed) {
  uint64_t sum = 0, word = 0;
  for (size_t at = 0; at < count; at += sizeof(word)) {
    word = 0;
    std::memcpy(&word, from + at, std::min(sizeof(word), count - at));
    sum += mix64(word ^ mix64(seed + at));
  }
  return sum;
}

uint64_t sum_of_rows(const parallel::MicroBatch& batch, int64_t step) {
  const auto& inputs = batch.loaded.empty() ? batch.inputs : batch.loaded;
  const int64_t rows = batch.samples.numel();
  const auto valid = real_positions(batch, inputs);
  uint64_t out = 0;
  for (const auto& [name, given] : inputs) {
    const bool is_derived = std::ranges::find(batch.derived, name) != batch.derived.end();
    const bool is_read = name != "key_mask" && !is_derived;
    if (!given.is_cpu() || given.dim() == 0 || given.size(0) != rows || !is_read) continue;
    const auto tensor = given.contiguous();
    const auto width = static_cast<size_t>(tensor.nbytes()) / static_cast<size_t>(rows);
    const auto* from = static_cast<const std::byte*>(tensor.const_data_ptr());
    for (int64_t row = 0; row < rows; ++row) {
      const auto place = static_cast<uint64_t>(batch.samples.const_data_ptr<int64_t>()[row]);
      auto bytes = width;
      if (!valid.empty() && tensor.dim() > 1 && tensor.size(1) > 0) {
        const auto length = std::min(valid[static_cast<size_t>(row)], tensor.size(1));
        bytes = width / static_cast<size_t>(tensor.size(1)) * static_cast<size_t>(length);
      }
      const auto seed =
          hash_combine(hash_combine(static_cast<uint64_t>(step), place), hash_text(name));
      out += sum_of_bytes(from + static_cast<size_t>(row) * width, bytes, seed);
    }
  }
  return out;
}

}  // namespace

uint64_t sum_of_rows(const dataset::StepBatch& batch, int64_t step) {
  uint64_t out = 0;
  for (const auto& one : batch.micro_batches) {
    if (!one.empty()) out += sum_of_rows(one, step);
  }
  return out;
}

uint64_t sum_of_first_rows(const dataset::Dataset& data, data::StreamOptions options) {
  constexpr int64_t kRows = 32;
  options.layout = {.per_device_batch = 1};
  const auto stream = data.open(options);
  stream->start(0, 0);
  uint64_t out = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const auto batch = stream->next();
    if (!batch) break;
    out += sum_of_rows(*batch, row);
  }
  return out;
}

namespace {

std::map<std::string, uint64_t> sums_of(const parallel::State& weights,
                                        const comm::Group& processes) {
  constexpr int64_t kBytes = int64_t{16} << 20;
  checkpoint::Sums sums(weights);
  for (size_t tensor = 0; tensor < weights.size(); ++tensor) {
    for (const auto& piece : weights[tensor].pieces) {
      if (!piece.owned) continue;
      for (const auto& part : piece.parts(kBytes)) sums.add(tensor, part, part.on_host());
    }
  }
  const auto all = sums.together(processes);
  std::map<std::string, uint64_t> out;
  for (size_t tensor = 0; tensor < weights.size(); ++tensor)
    out[weights[tensor].name] = all[tensor];
  return out;
}

}  // namespace

std::map<std::string, uint64_t> sums_of_weights(parallel::Strategy& strategy) {
  return sums_of(strategy.weights(), strategy.processes());
}

std::string sum_of_base(parallel::Strategy& strategy) {
  auto weights = strategy.weights();
  if (!checkpoint::is_adapted(weights)) return "";
  std::erase_if(weights, [](const auto& tensor) { return tensor.trained || tensor.is_buffer; });
  uint64_t sum = 0;
  for (const auto& [name, one] : sums_of(weights, strategy.processes())) {
    sum += hash_combine(hash_text(name), one);
  }
  return fmt::format("{}:{}", c10::toString(strategy.replica().compute_dtype()), sum_text(sum));
}

std::string sum_text(uint64_t sum) {
  return fmt::format("{:016x}", sum);
}

}  // namespace convoy::train
