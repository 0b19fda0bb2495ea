#pragma once

#include "tests/train/causal_testing.h"

// Small language models on ranks that keep shards.
namespace convoy::train::zero_testing {

inline constexpr int64_t kZeroSteps = 10;

inline options::TrainingArguments zero_arguments(int64_t zero, int64_t accumulation = 1) {
  auto out = short_run(2, accumulation, kZeroSteps);
  out.max_grad_norm = 0.5;
  out.parallel.parallelism.zero = zero;
  out.parallel.parallelism.bucket_bytes = 0;  // a bucket per unit
  return out;
}

inline options::TrainingArguments in_precision(options::TrainingArguments options,
                                               const std::string& precision) {
  options.bf16 = precision == "bf16";
  options.fp16 = precision == "fp16";
  return options;
}

inline Outcome on_ranks(int ranks, const parallel::ModelFactory& factory,
                        const options::TrainingArguments& options,
                        const std::shared_ptr<dataset::Dataset>& data = texts()) {
  return outcome_of_ranks(
      ranks, [&](const job::Job& job) { return outcome_of(factory, data, options, job); });
}

/// Gives the jobs of `ranks` ranks several state replicas, each kept by `shard_ranks`
/// neighbours.
inline std::function<job::Job(job::Job)> in_copies(int ranks, int shard_ranks) {
  const auto connector = std::make_shared<comm::ThreadConnector>(std::chrono::minutes(2));
  return [=](job::Job job) {
    const int rank = job.environment.rank;
    job.groups = comm::Groups({{.replicate = ranks / shard_ranks}, rank, ranks},
                              [&](const auto& members, const auto& name) {
                                return connector->connect(rank, members, name);
                              });
    return job;
  };
}

inline Outcome on_copies(int ranks, int shard_ranks, const options::TrainingArguments& options) {
  const auto member = in_copies(ranks, shard_ranks);
  return outcome_of_ranks(ranks, [&](const job::Job& job) {
    return outcome_of(small_gpt2, texts(), options, member(job));
  });
}

}  // namespace convoy::train::zero_testing
