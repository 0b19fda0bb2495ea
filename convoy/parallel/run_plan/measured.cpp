#include "convoy/parallel/run_plan/measured.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/formats/trace_file.h"

namespace convoy::parallel {
namespace fs = std::filesystem;

namespace {

constexpr const char* kTry = "try the options of the training that wrote it";

/// Spans of one thread between two `clip`s, as far as the simulation has them.
using Spans = std::vector<TimedInstruction>;

/// Steps of a thread: the instructions that it computed before each `clip`.
std::vector<Spans> steps_of(const std::vector<formats::TraceMark>& marks) {
  std::vector<Spans> out;
  Spans step;
  for (const auto& [name, begin, end] : marks) {
    if (const auto instruction = block_instruction(name)) {
      step.push_back({*instruction, begin, end});
    } else if (name == to_text(Instruction{.op = Op::Clip})) {
      out.push_back(std::exchange(step, {}));
    }
  }
  return out;
}

/// Instructions that a stage computes in a step.
Program computed_by(const StagePlan& stage) {
  Program out;
  std::ranges::copy_if(stage.step, std::back_inserter(out), [](const Instruction& i) {
    return block_instruction(to_text(i)).has_value();
  });
  return out;
}

/// Stage that holds all blocks of these steps.
int stage_of(const std::vector<Spans>& steps, const RunPlan& plan, const fs::path& path) {
  const auto& layout = plan.stages[0].layout;
  std::optional<int> stage;
  for (const auto& step : steps) {
    for (const auto& [i, begin, end] : step) {
      if (i.block >= std::ssize(layout.table().units_of_block)) {
        fail<UsageError>("schedule", "{} has '{}', a block that this model has not; {}",
                         path.string(), to_text(i), kTry);
      }
      const int holds = layout.stage_of(i.block);
      if (holds == stage.value_or(holds)) {
        stage = holds;
        continue;
      }
      fail<UsageError>("schedule",
                       "{} has '{}' on the rank of stage {}, but this schedule has the block on "
                       "stage {}; {}",
                       path.string(), to_text(i), *stage, holds, kTry);
    }
  }
  return stage.value();
}

/// Keeps the planned instructions of each step, which an evaluation may precede. Throws where a
/// step has others.
void keep_planned(std::vector<Spans>& steps, const Program& planned, int stage,
                  const fs::path& path) {
  for (auto& step : steps) {
    const auto before = std::max<std::ptrdiff_t>(0, std::ssize(step) - std::ssize(planned));
    step.erase(step.begin(), step.begin() + before);
    const auto [done, wanted] =
        std::ranges::mismatch(step, planned, {}, &TimedInstruction::instruction);
    if (wanted == planned.end()) continue;
    fail<UsageError>("schedule",
                     "{} has another schedule: stage {} does '{}' where this one has "
                     "'{}'; {}",
                     path.string(), stage, done == step.end() ? "clip" : to_text(done->instruction),
                     to_text(*wanted), kTry);
  }
}

/// Returns one step of all stages as a timeline.
Timeline as_timeline(const std::vector<Spans>& stages) {
  Timeline out{.ranks = stages};
  double begin = stages[0].front().begin;
  for (const auto& spans : stages) begin = std::min(begin, spans.front().begin);
  for (auto& spans : out.ranks) {
    for (auto& span : spans) {
      span.begin -= begin;
      span.end -= begin;
      out.length = std::max(out.length, span.end);
    }
  }
  return out;
}

}  // namespace

std::vector<Timeline> measured_steps(const fs::path& trace, const RunPlan& plan) {
  const auto num_stages = static_cast<int>(plan.stages.size());
  const auto first = formats::read_trace(trace);
  if (first.num_ranks > 1 && first.num_ranks % num_stages != 0) {
    fail<UsageError>("schedule",
                     "{} is of a training on {} ranks, which {} stages do not divide; "
                     "{}",
                     trace.string(), first.num_ranks, num_stages, kTry);
  }
  std::vector<std::vector<Spans>> by_stage(plan.stages.size());
  const int ranks_of_stage = std::max(1, first.num_ranks / num_stages);
  for (int rank = 0; rank < first.num_ranks; rank += ranks_of_stage) {
    const auto file = rank == 0 ? first : formats::read_trace(formats::trace_of_rank(trace, rank));
    for (const auto& [thread, marks] : file.threads) {
      auto steps = steps_of(marks);
      std::erase_if(steps, [](const Spans& step) { return step.empty(); });
      if (steps.empty()) continue;
      const int stage = stage_of(steps, plan, file.path);
      keep_planned(steps, computed_by(plan.stages[static_cast<size_t>(stage)]), stage, file.path);
      auto& known = by_stage[static_cast<size_t>(stage)];
      if (known.empty()) known = std::move(steps);
    }
  }
  size_t num_steps = by_stage[0].size();
  for (size_t stage = 0; stage < by_stage.size(); ++stage) {
    if (by_stage[stage].empty()) {
      fail<UsageError>("schedule", "{} has no step of stage {} of {}; {}", trace.string(), stage,
                       num_stages, kTry);
    }
    num_steps = std::min(num_steps, by_stage[stage].size());
  }
  std::vector<Timeline> out;
  for (size_t step = 0; step < num_steps; ++step) {
    std::vector<Spans> stages;
    for (auto& steps : by_stage) stages.push_back(std::move(steps[step]));
    out.push_back(as_timeline(stages));
  }
  return out;
}

}  // namespace convoy::parallel
