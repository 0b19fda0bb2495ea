#include "convoy/parallel/pipeline/compare.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/parallel/program/most_cost.h"

namespace convoy::parallel {

namespace {

std::vector<double> of_each(const char* name, std::vector<double> numbers, int num_stages) {
  const auto n = static_cast<size_t>(num_stages);
  for (const double number : numbers) {
    if (number >= 0 && number <= kMostCost) continue;
    fail<UsageError>("schedule", "--{} {} is no cost; expected a number from 0 on, at most {:g}",
                     name, number, kMostCost);
  }
  if (numbers.size() == 1) numbers.resize(n, numbers.front());
  if (numbers.size() == n) return numbers;
  fail<UsageError>("schedule", "--{} has {} numbers; expected one, or one for each of {}", name,
                   numbers.size(), plural(num_stages, "stage"));
}

}  // namespace

Costs StageNumbers::costs(int num_stages) const {
  Costs out;
  out.forward = of_each("forward", forward, num_stages);
  out.weight = of_each("weight", weight, num_stages);
  out.backward = of_each("backward", backward, num_stages);
  for (size_t s = 0; s < out.backward.size(); ++s) out.backward[s] += out.weight[s];
  out.send = out.send_grad = of_each("send", send, num_stages);
  out.kept = of_each("kept", kept, num_stages);
  out.put_off = put_off.empty() ? out.kept : of_each("put_off", put_off, num_stages);
  for (size_t s = 0; s < out.kept.size(); ++s) {
    if (out.put_off[s] <= out.kept[s]) continue;
    fail<UsageError>("schedule", "--put_off {:g} is more than --kept {:g}; expected a part of it",
                     out.put_off[s], out.kept[s]);
  }
  return out;
}

void check_size(int64_t num_stages, int64_t virtual_stages, int64_t num_micro_batches) {
  // Times and bars of each action take some hundred bytes, and there are several schedules.
  constexpr int64_t kMostStages = 1024, kMostActions = 2'000'000;
  constexpr double kEach = 3;  // a forward and both halves of a backward
  if (num_stages > kMostStages) {
    fail<UsageError>("schedule", "a pipeline of {} is too long to be compared; expected at most {}",
                     plural(num_stages, "stage"), kMostStages);
  }
  // auto tries every number of virtual stages, and the work for one grows faster than their number.
  constexpr int64_t kMostTried = 4 * kMostStages;
  int64_t most = 1;
  while ((most + 1) * (most + 1) * num_stages <= kMostTried) ++most;
  if (virtual_stages > most) {
    fail<UsageError>("schedule",
                     "{} on each of {} are too many to be compared; expected at most {} each",
                     plural(virtual_stages, "virtual stage"), plural(num_stages, "stage"), most);
  }
  const auto each = static_cast<double>(num_stages * std::min(virtual_stages, kMostActions));
  if (kEach * each * static_cast<double>(num_micro_batches) <= kMostActions) return;
  fail<UsageError>("schedule",
                   "{} micro-batches on {} make more than {} actions, too many to be compared; try "
                   "fewer micro-batches: with more the bubble's share only shrinks",
                   num_micro_batches, plural(num_stages, "stage"), kMostActions);
}

std::vector<ComparedSchedule> compare_schedules(const Costs& by_stage, const PlanOptions& options) {
  check_size(options.parallelism.ranks.pipeline, options.parallelism.pipeline.virtual_stages,
             options.parallelism.micro_batches);
  std::vector<ComparedSchedule> out;
  for (const auto* entry : pipeline_schedules()) {
    auto one = options;
    one.parallelism.pipeline.schedule = entry;
    if (!entry->interleaved) one.parallelism.pipeline.placement.reset();
    auto& compared = out.emplace_back(ComparedSchedule{entry});
    try {
      compared.plan = plan_stages(by_stage, one);
    } catch (const UsageError& error) {
      compared.refusal = error.what();
    }
  }
  return out;
}

}  // namespace convoy::parallel
