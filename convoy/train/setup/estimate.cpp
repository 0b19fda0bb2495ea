#include "convoy/train/setup/estimate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/echo/echo_engine.h"
#include "convoy/profile/profile.h"
#include "convoy/train/setup/batch.h"
#include "convoy/train/setup/from_arguments.h"

namespace convoy::train {

Estimator::Estimator(const parallel::ModelFactory& factory, TrainingArguments arguments,
                     const Dataset& data, int num_ranks, std::vector<int64_t> sizes, bool for_gpu)
    : run_(asked_run(factory, arguments, data, num_ranks)),
      rows_(arguments.per_device_train_batch_size) {
  hold_batch(arguments, run_.mesh.degree(schedule::kRows));
  if (arguments.parallel.threads > 0) {
    at::set_num_threads(static_cast<int>(arguments.parallel.threads));
  }
  if (run_.mesh.degree(schedule::Axis::Tensor | schedule::Axis::Context) > 1) {
    // Tells what does not go before anything runs.
    schedule::plan_run(run_.model, run_.mesh, run_.options);
  }
  const bool as_asked = sizes.empty();
  if (as_asked) sizes = {std::max<int64_t>(1, rows_ / 2), std::max<int64_t>(2, rows_)};
  const auto tensor = schedule::Axis::Tensor, context = schedule::Axis::Context;
  others_ = std::make_shared<BlockCosts>(factory, arguments, data, std::move(sizes), 0,
                                         for_gpu ? rows_ : 0);
  if (!as_asked) {
    costs_ = others_->of(share_of(rows_));
    return;
  }
  const auto batch = first_batch(arguments, data, run_.mesh.degree(schedule::kRows));
  if (batch.empty()) {
    fail<UsageError>("train", "the training data has no rows to read the costs from");
  }
  auto how = profile_options(arguments);
  how.tensor = comm::echo_group(run_.mesh.place(tensor), run_.mesh.degree(tensor));
  how.is_timed = false;
  how.sequence_parallel = arguments.parallel.sequence_parallel;
  how.context = comm::echo_group(run_.mesh.place(context), run_.mesh.degree(context));
  const auto rows = batch.samples.numel();
  const UsualBatches batches(arguments, data, rows);
  costs_ = batches.vary() ? profile_usual(factory, batches, rows, how).longest
                          : profile::profile(factory(), batch, how);
}

plan::BlockShare Estimator::share_of(int64_t rows) const {
  auto out = plan::share_of(run_.mesh, run_.options);
  out.rows = rows;
  return out;
}

Way Estimator::asked() const {
  // Without others to share with no stage of ZeRO shares anything, but for what is offloaded.
  const auto& offload = run_.options.offload;
  const bool has_shards = run_.mesh.degree(schedule::kState) > 1 ||
                          offload.gradients != schedule::Place::Device ||
                          offload.parameters != schedule::Place::Device;
  const int64_t zero = has_shards ? run_.options.zero : 0;
  return {zero, run_.options.recompute, rows_, run_.options.num_micro_batches};
}

schedule::RunPlan Estimator::plan(const Way& way, bool proves) const {
  auto options = run_.options;
  options.zero = way.zero;
  if (way.zero < 2) options.offload.gradients = schedule::Place::Device;
  if (way.zero < 3) options.offload.parameters = schedule::Place::Device;
  options.recompute = way.recompute;
  options.num_micro_batches = way.micro_batches;
  options.batch_rows = way.rows;
  return schedule::plan_run(run_.model, run_.mesh, options,
                            way.rows == rows_ ? costs_ : others_->of(share_of(way.rows)), proves);
}

schedule::MemoryUse Estimator::memory(const Way& way) const {
  const auto stages = plan(way, /*proves=*/false).stages;
  return std::max_element(
             stages.begin(), stages.end(),
             [](const auto& a, const auto& b) { return a.memory.sum() < b.memory.sum(); })
      ->memory;
}

int64_t Estimator::most_rows(const Way& way, int64_t bytes, bool holds_batch) const {
  const int64_t of_rank = way.rows * way.micro_batches;
  const auto fits = [&](int64_t rows) {
    auto other = way;
    other.rows = rows;
    if (holds_batch) other.micro_batches = of_rank / rows;
    return memory(other).sum() <= bytes;
  };
  if (holds_batch) {
    for (int64_t rows = of_rank; rows > 0; --rows) {
      if (of_rank % rows == 0 && fits(rows)) return rows;
    }
    return 0;
  }
  if (!fits(1)) return 0;
  // Memory grows evenly, or faster from a row on: the first rows tell how many there are at most.
  constexpr double kMost = 1 << 20;
  const auto of = [&](int64_t rows) {
    auto other = way;
    other.rows = rows;
    return static_cast<double>(memory(other).sum());
  };
  const double one = of(1), each = std::max(1.0, of(2) - one);
  int64_t good = 1;
  auto bad = static_cast<int64_t>(std::min(kMost, (static_cast<double>(bytes) - one) / each)) + 3;
  if (bad > 4 && fits(bad - 3)) good = bad - 3;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<Way> Estimator::nearest(int64_t bytes) const {
  const int64_t most_zero = run_.mesh.degree(schedule::kState) == 1          ? 0
                            : run_.mesh.degree(schedule::Axis::Pipeline) > 1 ? 1
                                                                             : 3;
  // Smaller micro-batches cost little, stages of ZeRO up to the second nothing but messages.
  for (const bool recompute : {asked().recompute, true}) {
    for (int64_t zero = asked().zero; zero <= std::max(most_zero, asked().zero); ++zero) {
      auto way = asked();
      way.zero = zero;
      way.recompute = recompute;
      const int64_t of_rank = way.rows * way.micro_batches;
      way.rows = std::min(rows_, most_rows(way, bytes, /*holds_batch=*/true));
      if (way.rows == 0) continue;
      way.micro_batches = of_rank / way.rows;
      if (memory(way).sum() <= bytes) return way;
    }
  }
  return std::nullopt;
}

std::string flags_of(const Way& way, const Way& asked, bool holds_batch) {
  std::vector<std::string> out;
  if (way.rows != asked.rows) {
    out.push_back(fmt::format("--per_device_train_batch_size {}", way.rows));
    if (!holds_batch) {
      out.push_back(fmt::format("--gradient_accumulation_steps {}", way.micro_batches));
    }
  }
  if (way.zero != asked.zero) out.push_back(fmt::format("--zero {}", way.zero));
  if (way.recompute != asked.recompute) out.emplace_back("--gradient_checkpointing");
  return join(out, " ");
}

schedule::RunPlan estimate(const parallel::ModelFactory& factory,
                           const TrainingArguments& arguments, const Dataset& data, int num_ranks) {
  return Estimator(factory, arguments, data, num_ranks).plan();
}

}  // namespace convoy::train
