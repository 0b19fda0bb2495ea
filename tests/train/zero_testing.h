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

/// Gives the jobs of `ranks` ranks several copies of the state, each kept by `shard_ranks`
/// neighbours.
inline std::function<Job(Job)> in_copies(int ranks, int shard_ranks) {
  const auto groups = [](int count, int size) {
    std::vector<std::vector<comm::Group>> out;
    for (int i = 0; i < count; ++i) {
      out.push_back(size == 1 ? std::vector<comm::Group>(1)
                              : comm::make_thread_groups(size, std::chrono::minutes(2)));
    }
    return out;
  };
  const int num_copies = ranks / shard_ranks;
  return [shard_ranks, shards = groups(num_copies, shard_ranks),
          copies = groups(shard_ranks, num_copies)](Job job) {
    const auto rank = static_cast<size_t>(job.environment.rank);
    const auto size = static_cast<size_t>(shard_ranks);
    job.shard_ranks = shard_ranks;
    job.shard = shards[rank / size][rank % size];
    job.replicas = copies[rank % size][rank / size];
    return job;
  };
}

inline Outcome on_copies(int ranks, int shard_ranks, const TrainingArguments& options) {
  const auto member = in_copies(ranks, shard_ranks);
  return outcome_of_ranks(
      ranks, [&](const Job& job) { return outcome_of(small_gpt2, texts(), options, member(job)); });
}

}  // namespace convoy::train::zero_testing
