#pragma once

#include "tests/train/causal_testing.h"

// Small language models on ranks that keep slices.
namespace convoy::train::zero_testing {

inline constexpr int64_t kSteps = 10;

inline TrainingArguments arguments(int64_t zero, int64_t accumulation = 1) {
  TrainingArguments out;
  out.per_device_train_batch_size = 2;
  out.gradient_accumulation_steps = accumulation;
  out.max_steps = kSteps;
  out.learning_rate = 3e-3;
  out.weight_decay = 0.01;
  out.max_grad_norm = 0.5;
  out.logging_steps = 1;
  out.save_strategy = "no";
  out.output.quiet = true;
  out.parallel.zero = zero;
  out.parallel.bucket_cap_mb = 0;  // a bucket per unit
  return out;
}

/// As ranks over shared memory, which add in rank order.
inline Outcome on_ranks(int ranks, const parallel::ModelFactory& factory,
                        const TrainingArguments& options,
                        const std::shared_ptr<Dataset>& data = texts()) {
  std::vector<Outcome> outcomes(static_cast<size_t>(ranks));
  run_ranks(ranks, [&](const Job& job) {
    outcomes[static_cast<size_t>(job.environment.rank)] = outcome_of(factory, data, options, job);
  });
  for (const auto& other : outcomes) EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights));
  return outcomes[0];
}

/// Four ranks, two of which keep a copy together.
inline Outcome on_two_copies(const TrainingArguments& options) {
  auto shards = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                           comm::make_thread_groups(2, std::chrono::minutes(2))};
  auto copies = std::array{comm::make_thread_groups(2, std::chrono::minutes(2)),
                           comm::make_thread_groups(2, std::chrono::minutes(2))};
  std::vector<Outcome> outcomes(4);
  run_ranks(4, [&](Job job) {
    const auto rank = static_cast<size_t>(job.environment.rank);
    job.shard_ranks = 2;
    job.shard = shards[rank / 2][rank % 2];
    job.replicas = copies[rank % 2][rank / 2];
    outcomes[rank] = outcome_of(small_gpt2, texts(), options, job);
  });
  for (const auto& other : outcomes) EXPECT_TRUE(at::equal(outcomes[0].weights, other.weights));
  return outcomes[0];
}

}  // namespace convoy::train::zero_testing
