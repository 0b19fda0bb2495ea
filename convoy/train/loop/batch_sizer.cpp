#include "convoy/train/loop/batch_sizer.h"

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/out_of_memory.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/options/batch.h"
#include "convoy/planner/devices/memory_budget.h"
#include "convoy/planner/estimate/estimate.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/train/memory_use.h"

// Micro-batches that fit into a device's memory.
namespace convoy::train {

namespace {

std::string memory_advice(const RunContext& run) {
  return planner::to_take_less(run.arguments, run.job.num_devices(), ranks_here(run.job));
}

/// Bytes of each kind of memory as text, beside the estimate where there is one.
std::string by_kind(const parallel::MemoryUse& fact, const parallel::MemoryUse* estimated) {
  const auto facts = kinds_of(fact), guesses = kinds_of(estimated ? *estimated : fact);
  std::vector<std::string> parts;
  for (size_t i = 0; i < facts.size(); ++i) {
    const auto& [kind, bytes] = facts[i];
    const int64_t guess = guesses[i].second;
    if (bytes == 0 && guess == 0) continue;
    const auto beside = estimated ? fmt::format(" (estimate {})", human_bytes(guess)) : "";
    parts.push_back(fmt::format("{} {}{}", kind, human_bytes(bytes), beside));
  }
  return join(parts);
}

}  // namespace

BatchSizer::BatchSizer(RunContext& run, const parallel::ModelFactory& factory,
                       const dataset::Dataset* train_data)
    : run_(run),
      factory_(factory),
      train_data_(train_data),
      holds_batch_(run.arguments.global_batch_size.has_value()) {}

void BatchSizer::set_batch() {
  if (train_data_ == nullptr) return;
  auto& arguments = run_.arguments;
  if (arguments.auto_find_batch_size) find();
  options::hold_batch(arguments, run_.job.num_ranks(),
                      per_device_rows(run_, arguments.per_device_train_batch_size));
  planner::set_memory_advice(memory_advice(run_));
}

/// Finds the largest micro-batch that fits and divides the requested step; where ranks cannot
/// reduce it later, the largest that fits for sure.
void BatchSizer::find() {
  auto& arguments = run_.arguments;
  const auto& job = run_.job;
  const bool on_gpu = !job.devices.at(0).is_cpu();
  const int64_t limit = arguments.parallel.device_memory;
  const auto room = on_gpu ? planner::room_of_gpu(job.devices.at(0), job.world(), limit)
                           : planner::room_of_rank("", ranks_here(job), limit);
  const int64_t shares = job.num_ranks(), batch = options::step_rows(arguments, shares);
  if (batch % shares != 0) {
    fail<UsageError>("train",
                     "global_batch_size = {} does not divide over {} ranks that share out the "
                     "data; try {}",
                     batch, shares, (batch / shares + 1) * shares);
  }
  auto whole = arguments;
  whole.per_device_train_batch_size = batch / shares;
  whole.gradient_accumulation_steps = 1;
  whole.global_batch_size.reset();
  const auto rows = comm::ask_main(
      job.world(), "find a batch size",
      [&]() -> Json {
        constexpr int64_t kRun = 8;
        const int64_t more = std::clamp<int64_t>(batch / shares, 2, kRun);
        const planner::Estimator estimator(
            factory_, whole,
            {.data = *train_data_, .num_ranks = job.num_devices(), .sizes = {more / 2, more}});
        // A step that is too large after all is repeated with smaller micro-batches, but not
        // everywhere.
        using parallel::Axis;
        const auto in_step = Axis::Pipeline | Axis::Expert | Axis::Context | Axis::Tensor;
        const bool steps_down = limit > 0 && job.groups.mesh.degree(in_step) == 1;
        const int64_t bytes = steps_down ? room.bytes : room.sure_bytes();
        const int64_t found = estimator.most_rows(estimator.asked(), bytes, true);
        if (found > 0) return found;
        auto one = estimator.asked();
        one.rows = 1;
        one.micro_batches = batch / shares;
        auto of_one = arguments;
        of_one.per_device_train_batch_size = 1;
        fail<UsageError>(
            "train", "not even one row at a time fits: it is estimated to take {} of {}; try {}",
            human_bytes(estimator.memory(one).sum()), room.text,
            planner::to_take_less(of_one, job.num_devices()));
      },
      comm::Lasts::Long);
  arguments.per_device_train_batch_size = value_from<int64_t>(rows);
  arguments.gradient_accumulation_steps =
      arguments.global_batch_size ? 1 : batch / shares / arguments.per_device_train_batch_size;
}

int64_t BatchSizer::fewer_rows() const {
  const auto& arguments = run_.arguments;
  const int64_t rows = arguments.per_device_train_batch_size;
  const int64_t of_rank = rows * arguments.gradient_accumulation_steps;
  for (int64_t fewer = rows - 1; fewer > 0; --fewer) {
    if (of_rank % fewer == 0) return fewer;
  }
  return 0;
}

/// Makes the same step of micro-batches of `rows` from here on.
void BatchSizer::use_rows(int64_t rows) {
  auto& arguments = run_.arguments;
  arguments.gradient_accumulation_steps *= arguments.per_device_train_batch_size;
  arguments.gradient_accumulation_steps /= rows;
  arguments.per_device_train_batch_size = rows;
  run_.state.micro_batch_rows = rows;
  run_.strategy->set_micro_batches(arguments.gradient_accumulation_steps, rows);
  planner::set_memory_advice(memory_advice(run_));
}

void BatchSizer::step_down(TrainingStream& stream, int short_rank) {
  const auto& arguments = run_.arguments;
  const auto& state = run_.state;
  const int64_t rows = arguments.per_device_train_batch_size;
  const int64_t fewer = fewer_rows();
  internal_check(fewer > 0, "train", "a step of {} cannot be made of fewer rows",
                 plural(rows, "row"));
  use_rows(fewer);
  stream.reopen();
  run_.callbacks.say(fmt::format(
      "step {}: {} has too little memory for micro-batches of {}; all ranks continue with {} x {} "
      "accumulation, the same {} rows a step",
      state.global_step + 1, run_.strategy->replica().groups().mesh.who(short_rank),
      plural(rows, "row"), arguments.per_device_train_batch_size,
      arguments.gradient_accumulation_steps, state.step_samples));
}

void BatchSizer::take_up(TrainingStream& stream) {
  const auto& arguments = run_.arguments;
  if (!arguments.auto_find_batch_size) return;
  const int64_t own = arguments.per_device_train_batch_size, rows = run_.state.micro_batch_rows;
  const bool same_step = rows > 0 && own * arguments.gradient_accumulation_steps % rows == 0;
  if (same_step && rows != own) {
    use_rows(rows);
    stream.open();
  }
  run_.state.micro_batch_rows = arguments.per_device_train_batch_size;
}

int ranks_here(const job::Job& job) {
  return std::max(job.environment.local_world_size, static_cast<int>(job.devices.size()));
}

bool BatchSizer::ran_out(const std::exception& error) const {
  return run_.arguments.parallel.device_memory > 0 && train_data_ != nullptr &&
         tells_of_memory(error.what());
}

std::string BatchSizer::beyond_device_memory(const parallel::MemoryUse& fact) const {
  const int64_t limit = run_.arguments.parallel.device_memory;
  std::string rest;
  try {
    rest = estimate_beside(fact, limit);
  } catch (const UsageError&) {  // DataParallel
    rest = fmt::format("{} when it asked for more; try {}", by_kind(fact, nullptr),
                       memory_advice(run_));
  }
  return fmt::format("device_memory = {} is not enough for a step: it held {}", human_bytes(limit),
                     rest);
}

std::string BatchSizer::estimate_beside(const parallel::MemoryUse& fact, int64_t limit) const {
  const planner::Estimator estimator(factory_, run_.arguments,
                                     {*train_data_, run_.job.num_devices()});
  const auto estimated = estimator.memory(estimator.asked());
  const auto way = estimator.nearest(planner::MemoryBudget{.bytes = limit}.sure_bytes());
  const auto flags = way ? planner::flags_of(*way, estimator.asked(), holds_batch_) : "";
  return fmt::format("{} when it asked for more, and is estimated to take {} in all; {}",
                     by_kind(fact, &estimated), human_bytes(estimated.sum()),
                     !way ? std::string("nothing on these ranks would fit; try more of them, or a "
                                        "smaller model")
                     : flags.empty() ? "the estimate is too low; try " + memory_advice(run_)
                                     : "try " + flags);
}

}  // namespace convoy::train
