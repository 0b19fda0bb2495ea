#include "cli/verify/verify_subject.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/gpus.h"
#include "convoy/nn/declare.h"
#include "convoy/options/batch.h"

namespace convoy::cli {

namespace {

/// Ranks that a run is verified on: those that are `typed`, else as few as its layout takes, or
/// `least`.
int ranks_of(int typed, int least, const options::ParallelArguments& parallel) {
  if (parallel.strategy == "single") return 1;
  const int together = static_cast<int>(parallel.ranks_of_rows()) * parallel.num_expert_ranks();
  if (parallel.strategy == "dp") {
    return together * static_cast<int>(parallel.replicas > 0 ? parallel.replicas : 2);
  }
  if (typed == 0) return std::max(least, together);
  if (typed % together != 0) {
    fail<UsageError>("cli",
                     "--nproc {} ranks do not divide over {} ranks that compute the same rows "
                     "together, or have the experts together; try --nproc {}",
                     typed, together, together);
  }
  return typed;
}

/// Ranks of a state replica where there are several replicas; 0 where all ranks keep one.
int64_t shard_of(const options::ParallelArguments& parallel, int64_t state_ranks) {
  int64_t ranks = 0;
  const bool is_number = parse_number(parallel.shard_ranks, ranks);
  return is_number && parallel.parallelism.zero > 0 && ranks < state_ranks ? ranks : 0;
}

bool shares_parameters(const nn::BlockList& blocks) {
  const auto model = nn::declare(blocks);
  std::vector<int> readers(model.params.size(), 0);
  for (const auto& block : model.blocks) {
    for (const auto param : block.params) ++readers[static_cast<size_t>(param)];
  }
  return std::any_of(readers.begin(), readers.end(), [](int number) { return number > 1; });
}

}  // namespace

VerifySubject subject_of(const Asked& asked, int typed, int least) {
  const auto& training = asked.configured->training;
  const auto& parallel = training.parallel;
  VerifySubject out;
  out.num_ranks = ranks_of(typed, least, parallel);
  out.in_threads = parallel.strategy == "dp";
  const auto together = static_cast<int>(parallel.ranks_of_rows());
  const int data = out.num_ranks / together;
  const int64_t all_rows = options::step_rows(training, parallel.counts_in_total() ? 1 : data);
  int64_t rows = training.per_device_train_batch_size;
  if (parallel.counts_in_total()) rows /= data;
  const int64_t micro_batches = std::max<int64_t>(1, all_rows / std::max<int64_t>(1, rows));
  const auto& asked_for = parallel.parallelism;
  out.one_device = {
      .rows = rows, .micro_batches = micro_batches, .reduce_each = asked_for.reduce_each};
  out.own = {.ranks = asked_for.ranks,
             .rows = rows,
             .micro_batches = std::max<int64_t>(1, micro_batches / data),
             .zero = asked_for.zero,
             .recompute = training.gradient_checkpointing,
             .sequence_parallel = asked_for.sequence_parallel,
             .expert_joined = asked_for.expert_joined,
             .reduce_each = asked_for.reduce_each,
             .offload = {.optimizer = asked_for.offload.optimizer,
                         .gradients = asked_for.offload.gradients,
                         .parameters = asked_for.offload.parameters},
             .pipeline = {.schedule = asked_for.pipeline.schedule}};
  out.own.ranks.shard = data / parallel.num_expert_ranks();
  out.own.set_shard_ranks(shard_of(parallel, out.own.state_ranks()));
  const auto blocks = asked.run.factory();
  out.num_blocks = std::ssize(blocks);
  out.num_experts = parallel::common_experts(nn::declare(blocks));
  out.facts.shares_blocks = shares_parameters(blocks);
  out.facts.half_precision = training.bf16 || training.fp16;
  out.facts.learning_rate = training.learning_rate;
  out.facts.over_network = parallel.backend == "gloo";
  out.facts.on_gpu =
      parallel.device == "cuda" || (parallel.device == "auto" && machine::visible_gpus() > 0);
  return out;
}

}  // namespace convoy::cli
