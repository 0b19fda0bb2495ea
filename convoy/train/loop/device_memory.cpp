#include <fmt/format.h>

#include <algorithm>

#include "convoy/base/error.h"
#include "convoy/base/json_value.h"
#include "convoy/base/out_of_memory.h"
#include "convoy/base/tensor_memory.h"
#include "convoy/base/text.h"
#include "convoy/comm/agree.h"
#include "convoy/planner/devices/room.h"
#include "convoy/planner/estimate/estimate.h"
#include "convoy/planner/estimate/memory_check.h"
#include "convoy/train/loop/trainer_impl.h"
#include "convoy/train/memory_use.h"

// What a step may take of a device's memory.
namespace convoy::train {

StepLimit::StepLimit(parallel::Strategy& strategy, int64_t device_memory) {
  if (device_memory == 0) return;
  // What is no rank's own does not count: rows read ahead, copies for a checkpoint.
  // Nor do pools here: they hold less than their most now, and count within the limit.
  const int64_t others = tensor_memory.held() - kept_bytes(strategy);
  const auto ranks = static_cast<int64_t>(strategy.replicas().size());
  tensor_memory.set_limit(std::max<int64_t>(1, others + ranks * device_memory));
}

StepLimit::~StepLimit() {
  tensor_memory.set_limit(0);
}

/// Finds the largest micro-batch that fits, of those that make the step that was asked for; where
/// ranks could not step down later, the largest that is sure to fit.
void Trainer::Impl::find_batch(const parallel::ModelFactory& factory) {
  const bool on_gpu = !job_.devices.at(0).is_cpu();
  const int64_t limit = arguments_.parallel.device_memory;
  const auto room = on_gpu ? planner::room_of_gpu(job_.devices.at(0), job_.world(), limit)
                           : planner::room_of_rank("", ranks_here(), limit);
  const int64_t shares = job_.num_ranks(), batch = options::step_rows(arguments_, shares);
  if (batch % shares != 0) {
    fail<UsageError>("train",
                     "global_batch_size = {} does not divide over {} ranks that share out the "
                     "data; try {}",
                     batch, shares, (batch / shares + 1) * shares);
  }
  auto whole = arguments_;
  whole.per_device_train_batch_size = batch / shares;
  whole.gradient_accumulation_steps = 1;
  whole.global_batch_size.reset();
  const auto rows = comm::ask_main(
      job_.world(), "find a batch size",
      [&]() -> Json {
        constexpr int64_t kRun = 8;
        const int64_t more = std::clamp<int64_t>(batch / shares, 2, kRun);
        const planner::Estimator estimator(
            factory, whole,
            {.data = *train_data_, .num_ranks = job_.num_devices(), .sizes = {more / 2, more}});
        // A step that is too large after all is repeated with smaller micro-batches, but not
        // everywhere.
        using parallel::Axis;
        const auto in_step = Axis::Pipeline | Axis::Context | Axis::Tensor;
        const bool steps_down = limit > 0 && job_.groups.mesh.degree(in_step) == 1;
        const int64_t bytes = steps_down ? room.bytes : room.sure_bytes();
        const int64_t found = estimator.most_rows(estimator.asked(), bytes, true);
        if (found > 0) return found;
        auto one = estimator.asked();
        one.rows = 1;
        one.micro_batches = batch / shares;
        auto of_one = arguments_;
        of_one.per_device_train_batch_size = 1;
        fail<UsageError>(
            "train", "not even one row at a time fits: it is estimated to take {} of {}; try {}",
            human_bytes(estimator.memory(one).sum()), room.text,
            planner::to_take_less(of_one, job_.num_devices()));
      },
      comm::Lasts::Long);
  arguments_.per_device_train_batch_size = value_from<int64_t>(rows);
  arguments_.gradient_accumulation_steps =
      arguments_.global_batch_size ? 1 : batch / shares / arguments_.per_device_train_batch_size;
}

/// Rows of the largest smaller micro-batch that makes the same step; 0: there is none.
int64_t Trainer::Impl::fewer_rows() const {
  const int64_t rows = arguments_.per_device_train_batch_size;
  const int64_t of_rank = rows * arguments_.gradient_accumulation_steps;
  for (int64_t fewer = rows - 1; fewer > 0; --fewer) {
    if (of_rank % fewer == 0) return fewer;
  }
  return 0;
}

/// After a step that was too large for a rank: all go on with smaller micro-batches, and read the
/// step's rows again.
void Trainer::Impl::step_down() {
  const int64_t rows = arguments_.per_device_train_batch_size, fewer = fewer_rows();
  arguments_.gradient_accumulation_steps *= rows;
  arguments_.gradient_accumulation_steps /= fewer;
  arguments_.per_device_train_batch_size = fewer;
  strategy_->set_micro_batches(arguments_.gradient_accumulation_steps, fewer);
  planner::set_memory_advice(memory_advice());
  earlier_data_wait_ = data_wait();
  stream_ = train_data_->open(stream_options(true));
  stream_->start(state_.epoch_index, state_.epoch_position);
  callbacks_.say(fmt::format(
      "step {}: {} has too little memory for micro-batches of {}; all ranks continue with {} x {} "
      "accumulation, the same {} rows a step",
      state_.global_step + 1, strategy_->replica().groups().mesh.who(last_.short_rank),
      plural(rows, "row"), fewer, arguments_.gradient_accumulation_steps, state_.step_samples));
}

/// Ranks that share this host's memory.
int Trainer::Impl::ranks_here() const {
  return std::max(job_.environment.local_world_size, static_cast<int>(job_.devices.size()));
}

std::string Trainer::Impl::memory_advice() const {
  return planner::to_take_less(arguments_, job_.num_devices(), ranks_here());
}

/// Whether the step was ended by device_memory.
bool Trainer::Impl::ran_out(const std::exception& error) const {
  return arguments_.parallel.device_memory > 0 && train_data_ && tells_of_memory(error.what());
}

/// Fact beside estimate, and what would fit.
std::string Trainer::Impl::beyond_device_memory() {
  const int64_t limit = arguments_.parallel.device_memory;
  const auto fact = note_memory();
  std::string head = fmt::format("device_memory = {} is not enough for a step", human_bytes(limit));
  try {
    const planner::Estimator estimator(factory_, arguments_, {*train_data_, job_.num_devices()});
    const auto estimated = estimator.memory(estimator.asked());
    const auto guess = kinds_of(estimated);
    std::vector<std::string> parts;
    for (const auto& [kind, bytes] : kinds_of(fact)) {
      const auto other = std::find_if(guess.begin(), guess.end(),
                                      [&](const auto& of) { return of.first == kind; });
      if (bytes == 0 && other->second == 0) continue;
      parts.push_back(
          fmt::format("{} {} (estimate {})", kind, human_bytes(bytes), human_bytes(other->second)));
    }
    const auto way = estimator.nearest(planner::Room{.bytes = limit}.sure_bytes());
    const auto flags = way ? planner::flags_of(*way, estimator.asked(), holds_batch_) : "";
    return fmt::format(
        "{}: it held {} when it asked for more, and is estimated to take {} in all; {}", head,
        join(parts), human_bytes(estimated.sum()),
        !way            ? std::string("nothing on these ranks would fit; try more of them, or a "
                                                 "smaller model")
        : flags.empty() ? "the estimate is too low; try " + memory_advice()
                        : "try " + flags);
  } catch (const UsageError&) {  // DataParallel
    std::vector<std::string> parts;
    for (const auto& [kind, bytes] : kinds_of(fact)) {
      if (bytes > 0) parts.push_back(fmt::format("{} {}", kind, human_bytes(bytes)));
    }
    return fmt::format("{}: it held {} when it asked for more; try {}", head, join(parts),
                       memory_advice());
  }
}

}  // namespace convoy::train
