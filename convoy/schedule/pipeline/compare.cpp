#include "convoy/schedule/pipeline/compare.h"

#include <cmath>

#include "convoy/base/error.h"
#include "convoy/base/text.h"

namespace convoy::schedule {

namespace {

std::vector<double> of_each(const char* name, std::vector<double> numbers, int num_stages) {
  const auto n = static_cast<size_t>(num_stages);
  for (const double number : numbers) {
    if (std::isfinite(number) && number >= 0) continue;
    fail<UsageError>("schedule", "--{} {} is no cost; expected a number from 0 on", name, number);
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
  return out;
}

std::vector<ComparedSchedule> compare_schedules(const Costs& by_stage, const PlanOptions& options) {
  std::vector<ComparedSchedule> out;
  for (const auto& entry : pipeline_schedules()) {
    auto one = options;
    one.schedule = entry.schedule;
    if (!entry.interleaved) one.placement.reset();
    auto& compared = out.emplace_back(ComparedSchedule{entry.schedule});
    try {
      compared.plan = plan_stages(by_stage, one);
    } catch (const UsageError& error) {
      compared.refusal = error.what();
    }
  }
  return out;
}

}  // namespace convoy::schedule
