#pragma once

#include "tests/train/causal_testing.h"

// Small language models on ranks that keep slices.
namespace convoy::train::zero_testing {

inline constexpr int64_t kSteps = 10;

inline TrainingArguments arguments(int64_t zero, int64_t accumulation = 1) {
  auto out = short_run(2, accumulation, kSteps);
  out.max_grad_norm = 0.5;
  out.parallel.zero = zero;
  out.parallel.bucket_cap_mb = 0;  // a bucket per unit
  return out;
}

inline TrainingArguments in_precision(TrainingArguments options, const std::string& precision) {
  options.bf16 = precision == "bf16";
  options.fp16 = precision == "fp16";
  return options;
}

inline Outcome on_ranks(int ranks, const parallel::ModelFactory& factory,
                        const TrainingArguments& options,
                        const std::shared_ptr<Dataset>& data = texts()) {
  return outcome_of_ranks(ranks,
                          [&](const Job& job) { return outcome_of(factory, data, options, job); });
}

/// Four ranks, two of which keep a copy together.
inline Outcome on_two_copies(const TrainingArguments& options) {
  auto shards = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                           comm::make_thread_groups(2, std::chrono::minutes(2))};
  auto copies = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                           comm::make_thread_groups(2, std::chrono::minutes(2))};
  return outcome_of_ranks(4, [&](Job job) {
    const auto rank = static_cast<size_t>(job.environment.rank);
    job.shard_ranks = 2;
    job.shard = shards[rank / 2][rank % 2];
    job.replicas = copies[rank % 2][rank / 2];
    return outcome_of(small_gpt2, texts(), options, job);
  });
}

}  // namespace convoy::train::zero_testing
