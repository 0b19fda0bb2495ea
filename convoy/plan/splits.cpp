#include "convoy/plan/splits.h"

#include "convoy/base/error.h"

namespace convoy::plan {

namespace {

/// Numbers that divide another, ascending.
std::vector<int64_t> divisors(int64_t of) {
  std::vector<int64_t> out;
  for (int64_t d = 1; d <= of; ++d) {
    if (of % d == 0) out.push_back(d);
  }
  return out;
}

/// Of the rows of a data rank's step: those that a micro-batch may have.
std::vector<int64_t> rows_of(int64_t of_rank, int64_t most) {
  std::vector<int64_t> out;
  for (const int64_t rows : divisors(of_rank)) {
    const bool even = (rows & (rows - 1)) == 0;
    if (rows <= most && (even || rows == of_rank)) out.push_back(rows);
  }
  return out;
}

std::vector<schedule::PipelineSchedule> schedules_of(int stages, int64_t micro_batches) {
  using schedule::PipelineSchedule;
  if (stages == 1) return {PipelineSchedule::OneFOneB};
  if (micro_batches == 1) return {PipelineSchedule::OneFOneB, PipelineSchedule::ZeroBubble};
  return {PipelineSchedule::OneFOneB, PipelineSchedule::Interleaved, PipelineSchedule::ZeroBubble};
}

/// Over how many ranks ZeRO may share out a state: all, or those of a host.
std::vector<int64_t> shards_of(const Wishes& wishes, int64_t data, int64_t tensor, int64_t zero) {
  const int64_t here = wishes.ranks_per_host / tensor;
  if (zero == 0 || here < 2 || here >= data || data % here != 0) return {0};
  return {0, here};
}

/// The least stage of ZeRO that has shards of what a split offloads; none of what is read whole.
int64_t least_zero(const Split& split) {
  using schedule::Place;
  return split.parameters != Place::Device ? 3 : split.gradients != Place::Device ? 2 : 0;
}

/// One rank keeps shards of what is offloaded, and else none.
void set_zero_of_one_rank(Split& split) {
  if (split.data == 1) split.zero = least_zero(split);
}

/// Adds what `splits` are with some of their state in `places`, the less of it the earlier.
void add_offloaded(std::vector<Split>& splits, const std::vector<schedule::Place>& places) {
  using schedule::Place;
  std::vector<Place> all{Place::Device};
  all.insert(all.end(), places.begin(), places.end());
  const auto on_devices = splits;
  for (int64_t parts = 1; parts <= 3; ++parts) {
    for (const auto optimizer : all) {
      for (const auto gradients : all) {
        for (const auto parameters : all) {
          const int64_t here = (optimizer == Place::Device ? 1 : 0) +
                               (gradients == Place::Device ? 1 : 0) +
                               (parameters == Place::Device ? 1 : 0);
          if (3 - here != parts) continue;
          for (auto split : on_devices) {
            split.optimizer = optimizer;
            split.gradients = gradients;
            split.parameters = parameters;
            set_zero_of_one_rank(split);
            const auto least = least_zero(split);
            // With a pipeline each micro-batch would bring it back.
            if (split.zero < least || (split.pipeline > 1 && least > 0)) continue;
            splits.push_back(split);
          }
        }
      }
    }
  }
}

}  // namespace

std::vector<Split> splits_of(const Wishes& wishes) {
  std::vector<Split> out;
  for (const int64_t tensor : divisors(wishes.num_ranks)) {
    for (const int64_t pipeline : divisors(wishes.num_ranks / tensor)) {
      const int64_t data = wishes.num_ranks / tensor / pipeline;
      if (wishes.global_batch % data != 0) continue;
      const int64_t of_rank = wishes.global_batch / data;
      for (const int64_t rows : rows_of(of_rank, wishes.most_rows)) {
        // Stages 2 and 3 with a pipeline reduce or gather for each micro-batch: the seeds advise
        // against it, and it never won a trial here.
        const int64_t most = data == 1 ? 0 : pipeline > 1 ? 1 : 3;
        for (int64_t zero = 0; zero <= most; ++zero) {
          for (const int64_t shard : shards_of(wishes, data, tensor, zero)) {
            for (const bool recompute : {false, true}) {
              if (recompute && !wishes.takes_recompute) continue;
              for (const auto schedule : schedules_of(static_cast<int>(pipeline), of_rank / rows)) {
                out.push_back({.pipeline = static_cast<int>(pipeline),
                               .data = static_cast<int>(data),
                               .tensor = static_cast<int>(tensor),
                               .rows = rows,
                               .micro_batches = of_rank / rows,
                               .zero = zero,
                               .recompute = recompute,
                               .schedule = schedule,
                               .shard = shard});
              }
            }
          }
        }
      }
    }
  }
  if (!wishes.offload.empty()) add_offloaded(out, wishes.offload);
  if (out.empty()) {
    fail<UsageError>("plan",
                     "a step of {} rows does not divide over {} ranks in any way; try a "
                     "batch that {} divides",
                     wishes.global_batch, wishes.num_ranks, wishes.num_ranks);
  }
  return out;
}

std::vector<Split> less_offloaded(const Split& split) {
  std::vector<Split> out;
  for (const auto part : {&Split::optimizer, &Split::gradients, &Split::parameters}) {
    if (split.*part == schedule::Place::Device) continue;
    auto& less = out.emplace_back(split);
    less.*part = schedule::Place::Device;
    set_zero_of_one_rank(less);
  }
  return out;
}

}  // namespace convoy::plan
