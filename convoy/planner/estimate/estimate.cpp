#include "convoy/planner/estimate/estimate.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/comm/echo/echo_engine.h"
#include "convoy/job/offload.h"
#include "convoy/machine/memory_limit.h"
#include "convoy/options/batch.h"
#include "convoy/planner/cost/pipeline_inputs.h"
#include "convoy/planner/cost/profile.h"
#include "convoy/planner/time/predict.h"

namespace convoy::planner {

Estimator::Estimator(const parallel::ModelFactory& factory, options::TrainingArguments arguments,
                     const EstimateInputs& inputs)
    : run_(asked_run(factory, arguments, inputs.data, inputs.num_ranks)),
      rows_(arguments.per_device_train_batch_size) {
  options::hold_batch(arguments, run_.mesh.degree(parallel::kRows));
  if (!inputs.for_gpu)
    job::check_offload_places(arguments.parallel.parallelism.offload, at::kCPU, /*where=*/"");
  if (arguments.parallel.threads > 0) {
    at::set_num_threads(static_cast<int>(arguments.parallel.threads));
  }
  if (run_.mesh.degree(parallel::Axis::Tensor | parallel::Axis::Context) > 1) {
    // Tells what does not go before anything runs.
    parallel::plan_run(run_.model, run_.mesh, run_.parallelism, run_.facts);
  }
  auto how = profile_options(arguments);
  refines_ = !inputs.for_gpu;
  const auto group = [&](parallel::Axis axis) {
    return comm::echo_group(run_.mesh.place(axis), run_.mesh.degree(axis));
  };
  how.tensor = group(parallel::Axis::Tensor);
  how.is_timed = false;
  how.sequence_parallel = arguments.parallel.parallelism.sequence_parallel;
  how.context = group(parallel::Axis::Context);
  if (inputs.progress) {
    how.again = [&](size_t block, size_t, const std::function<void()>&) {
      inputs.progress(static_cast<int64_t>(block) + 1, std::ssize(run_.model.blocks));
    };
  }
  run_step(factory, arguments, inputs, how);
  eval_rows_ = arguments.per_device_eval_batch_size;
  const auto evaluates = [&](std::string when, const parallel::ModelFactory& model,
                             const dataset::Dataset& data) -> Evaluation& {
    return evaluations_.emplace_back(
        Evaluation{fmt::format("{} (per_device_eval_batch_size {})", when, eval_rows_),
                   run_evaluation(model, arguments, data, how, inputs.for_gpu)});
  };
  if (inputs.eval_data) evaluates("while it evaluates", factory, *inputs.eval_data);
  if (const auto& pass = inputs.first_pass) {
    auto& made = evaluates(pass->when, pass->other ? pass->other : factory, *pass->data);
    if (pass->other) made.other = asked_evaluation(pass->other, arguments, inputs.num_ranks);
  }
}

namespace {

/// Value of StagePlan::peak for the evaluation of this number; evaluation_at() is its inverse.
int64_t peak_of(size_t evaluation) {
  return -1 - static_cast<int64_t>(evaluation);
}
size_t evaluation_at(int64_t peak) {
  return static_cast<size_t>(-1 - peak);
}

/// Largest memory of a block while it runs with so many rows.
int64_t most_of_a_block(const std::vector<BlockCost>& costs) {
  int64_t out = 0;
  for (const auto& cost : costs) {
    out = std::max(out, cost.kept_bytes + std::max(cost.forward_bytes, cost.backward_bytes));
  }
  return out;
}

/// Whether `bytes` leave half of this host's memory free.
bool has_room(int64_t bytes) {
  const int64_t available = machine::available_memory();
  return available == 0 || 2 * bytes < available;
}

/// Number of rows beyond which one and two rows run first.
constexpr int64_t kFewRows = 64;

/// Whether each block runs with so many rows here, judged by one and two.
bool runs_here(BlockCosts& few, BlockShare share, int64_t rows) {
  share.rows = rows;
  return has_room(most_of_a_block(few.of(share)));
}

}  // namespace

void Estimator::run_step(const parallel::ModelFactory& factory,
                         const options::TrainingArguments& arguments, const EstimateInputs& inputs,
                         const ProfileOptions& how) {
  sizes_ = inputs.sizes;
  if (sizes_.empty() && rows_ > kFewRows) {
    BlockCosts few(factory, arguments, inputs.data, {.sizes = {1, 2}});
    const auto share = reported_share(rows_);
    if (!runs_here(few, share, rows_)) {
      int64_t rows = kFewRows;  // of fewer, scores are not cut into as large pieces
      while (rows > 2 && !runs_here(few, share, rows)) rows /= 2;
      sizes_ = {rows / 2, rows};
    }
  }
  auto sizes = sizes_;
  if (sizes.empty()) sizes = {std::max<int64_t>(1, rows_ / 2), std::max<int64_t>(2, rows_)};
  others_ = std::make_shared<BlockCosts>(
      factory, arguments, inputs.data,
      MeasureOptions{.sizes = std::move(sizes), .for_gpu = inputs.for_gpu});
  if (sizes_.empty()) {
    const auto batch = first_batch(arguments, inputs.data, run_.mesh.degree(parallel::kRows));
    if (batch.empty()) {
      fail<UsageError>("train", "the training data has no rows to read the costs from");
    }
    const auto rows = batch.samples.numel();
    const UsualBatches batches(arguments, inputs.data, rows);
    costs_ = batches.vary() ? profile_usual(factory, batches, rows, how).longest
                            : profile(factory(), batch, how);
  } else {
    costs_ = others_->of(reported_share(rows_));
  }
}

/// Measures an evaluation by running it or, where it may be too large for this host, by
/// extrapolating from two sizes.
std::vector<int64_t> Estimator::run_evaluation(const parallel::ModelFactory& factory,
                                               options::TrainingArguments arguments,
                                               const dataset::Dataset& data, ProfileOptions how,
                                               bool for_gpu) const {
  arguments.per_device_train_batch_size = eval_rows_;
  if (for_gpu) how.gpu_rows = eval_rows_;
  const auto run = [&](int64_t most_rows) {
    const UsualBatches batches(arguments, data, most_rows);
    const int64_t rows = std::min(most_rows, batches.num_rows());
    return rows == 0 ? std::vector<int64_t>()
                     : evaluation_bytes(factory(), batches.longest(rows), how);
  };
  if (sizes_.empty() && eval_rows_ <= kFewRows) return run(eval_rows_);
  const auto one = run(1), two = run(2);
  std::vector<int64_t> out;
  for (size_t b = 0; b < one.size(); ++b) {
    out.push_back(one[b] + (two[b] - one[b]) * (eval_rows_ - 1));
  }
  if (out.empty() || !refines_) return out;
  return has_room(*std::max_element(out.begin(), out.end())) ? run(eval_rows_) : out;
}

BlockShare Estimator::reported_share(int64_t rows) const {
  auto out = share_of(run_.mesh, run_.parallelism);
  out.rows = rows;
  return out;
}

Parallelism Estimator::asked() const {
  auto out = run_.parallelism;
  out.rows = rows_;
  // ZeRO needs other ranks to share with, or offloaded state.
  const bool has_shards = run_.mesh.degree(parallel::kState) > 1 ||
                          out.offload.gradients != parallel::Place::Device ||
                          out.offload.parameters != parallel::Place::Device;
  if (!has_shards) out.zero = 0;
  return out;
}

parallel::RunPlan Estimator::plan_step(Parallelism split, bool proves) const {
  if (split.zero < 2) split.offload.gradients = parallel::Place::Device;
  if (split.zero < 3) split.offload.parameters = parallel::Place::Device;
  return parallel::plan_run(
      run_.model, run_.mesh, split, run_.facts,
      with_expert_rows(split.rows == rows_ ? costs_ : others_->of(reported_share(split.rows)),
                       run_.model, run_.mesh),
      proves);
}

Estimator::EvaluationUse Estimator::use_of(const Evaluation& evaluation, const Parallelism& split,
                                           const parallel::RunPlan& plan, size_t stage) const {
  EvaluationUse out;
  const auto add_blocks = [&](const parallel::Layout& layout) {
    for (size_t b = 0; b < evaluation.bytes.size(); ++b) {
      if (layout.holds(static_cast<int64_t>(b)))
        out.block = std::max(out.block, evaluation.bytes[b]);
    }
  };
  if (!evaluation.other) {
    add_blocks(plan.stages[stage].layout);
    return out;
  }
  auto spread = split;
  spread.recompute = false;
  if (split.zero < 3) spread.offload.parameters = parallel::Place::Device;
  const auto& other = *evaluation.other;
  const auto beside =
      parallel::plan_run(other.model, other.mesh, spread, other.facts, {}, /*proves=*/false);
  out.beside = beside.stages.at(stage).memory.sum();
  add_blocks(beside.stages[stage].layout);
  return out;
}

parallel::RunPlan Estimator::with_evaluations(parallel::RunPlan plan,
                                              const Parallelism& split) const {
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    auto& stage = plan.stages[s];
    for (size_t e = 0; e < evaluations_.size(); ++e) {
      const int64_t bytes = use_of(evaluations_[e], split, plan, s).sum();
      if (bytes <= stage.memory.activations) continue;
      stage.memory.activations = bytes;
      stage.peak = peak_of(e);
    }
  }
  return plan;
}

parallel::RunPlan Estimator::plan(const Parallelism& split) const {
  return with_evaluations(plan_step(split, /*proves=*/true), split);
}

namespace {

const parallel::StagePlan& fullest(const parallel::RunPlan& plan) {
  return *std::max_element(
      plan.stages.begin(), plan.stages.end(),
      [](const auto& a, const auto& b) { return a.memory.sum() < b.memory.sum(); });
}

}  // namespace

parallel::MemoryUse Estimator::memory(const Parallelism& split) const {
  return fullest(with_evaluations(plan_step(split, /*proves=*/false), split)).memory;
}

std::string Estimator::peak_text(const Parallelism& split) const {
  const auto planned = with_evaluations(plan_step(split, /*proves=*/false), split);
  const auto& stage = fullest(planned);
  if (stage.peak < 0) return evaluations_.at(evaluation_at(stage.peak)).when;
  const auto& instruction = stage.step[static_cast<size_t>(stage.peak)];
  return fmt::format("during \"{}\" ({})", parallel::to_text(instruction),
                     run_.model.blocks[static_cast<size_t>(instruction.block)].name);
}

int64_t Estimator::step_bytes(const Parallelism& split) const {
  return fullest(plan_step(split, /*proves=*/false)).memory.sum();
}

int64_t Estimator::most_rows(const Parallelism& split, int64_t bytes, bool holds_batch) const {
  const int64_t of_rank = split.rows * split.micro_batches;
  const auto with = [&](int64_t rows) {
    auto other = split;
    other.rows = rows;
    if (holds_batch) other.micro_batches = of_rank / rows;
    return other;
  };
  // Costs between the measured sizes are interpolated: the size that is found is measured, too, and
  // searched for again.
  constexpr int kTries = 5;
  int64_t found = 0, ran = 0;  // that fits as it ran
  for (int i = 0; i < kTries; ++i) {
    const int64_t before = found;
    found = 0;
    if (!holds_batch) found = largest_that_fits(split, bytes);
    for (int64_t rows = of_rank; holds_batch && rows > 0 && found == 0; --rows) {
      if (of_rank % rows == 0 && step_bytes(with(rows)) <= bytes) found = rows;
    }
    if (found == before || found == 0) return found;
    if (!refine(with(found))) break;
    if (step_bytes(with(found)) <= bytes) ran = std::max(ran, found);
  }
  return ran > 0 ? ran : found;
}

bool Estimator::refine(const Parallelism& split) const {
  constexpr double kSoonDone = 1;  // seconds
  const double times = static_cast<double>(split.rows) / static_cast<double>(rows_);
  double seconds = 0;
  for (const auto& cost : costs_) seconds += cost.forward_seconds + cost.backward_seconds;
  if (!refines_ || seconds * times > kSoonDone || !others_->has_rows(split.rows)) return false;
  others_->measure_also(split.rows);
  return true;
}

/// Returns the largest number of rows that fits in `bytes`; the search begins with a guess from one
/// and two rows.
int64_t Estimator::largest_that_fits(const Parallelism& split, int64_t bytes) const {
  const auto of = [&](int64_t rows) {
    auto other = split;
    other.rows = rows;
    return step_bytes(other);
  };
  const auto fits = [&](int64_t rows) { return of(rows) <= bytes; };
  if (!fits(1)) return 0;
  const auto one = static_cast<double>(of(1));
  const double each = std::max(1.0, static_cast<double>(of(2)) - one);
  int64_t good = 1;
  auto bad =
      static_cast<int64_t>(std::min<double>(kMostRows, (static_cast<double>(bytes) - one) / each)) +
      3;
  if (bad > 4 && fits(bad - 3)) good = bad - 3;
  for (; bad < kMostRows && fits(bad); bad *= 2) good = bad;
  while (bad - good > 1) {
    const int64_t middle = (good + bad) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

std::optional<Parallelism> Estimator::nearest(int64_t bytes) const {
  const int64_t most_zero = run_.mesh.degree(parallel::kState) == 1          ? 0
                            : run_.mesh.degree(parallel::Axis::Pipeline) > 1 ? 1
                                                                             : 3;
  // Smaller micro-batches cost little, stages of ZeRO up to the second nothing but messages.
  for (const bool recompute : {asked().recompute, true}) {
    for (int64_t zero = asked().zero; zero <= std::max(most_zero, asked().zero); ++zero) {
      auto split = asked();
      split.zero = zero;
      split.recompute = recompute;
      const int64_t of_rank = split.rows * split.micro_batches;
      split.rows = std::min(rows_, most_rows(split, bytes, /*holds_batch=*/true));
      if (split.rows == 0) continue;
      split.micro_batches = of_rank / split.rows;
      const bool evaluates_none = eval_rows(split, bytes).value_or(1) == 0;
      if (step_bytes(split) <= bytes && !evaluates_none) return split;
    }
  }
  return std::nullopt;
}

std::optional<int64_t> Estimator::eval_rows(const Parallelism& split, int64_t bytes) const {
  if (evaluations_.empty()) return std::nullopt;
  int64_t rows = eval_rows_;
  const auto plan = plan_step(split, /*proves=*/false);
  for (size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& memory = plan.stages[s].memory;
    for (const auto& evaluation : evaluations_) {
      const auto use = use_of(evaluation, split, plan, s);
      const int64_t left = bytes - (memory.sum() - memory.activations) - use.beside;
      if (use.block <= left) continue;
      rows = std::min(rows, eval_rows_ * std::max<int64_t>(0, left) / use.block);
    }
  }
  return rows;
}

std::string flags_of(const Parallelism& split, const Parallelism& asked, bool holds_batch) {
  std::vector<std::string> out;
  if (split.rows != asked.rows) {
    out.push_back(fmt::format("--per_device_train_batch_size {}", split.rows));
    if (!holds_batch) {
      out.push_back(fmt::format("--gradient_accumulation_steps {}", split.micro_batches));
    }
  }
  if (split.zero != asked.zero) out.push_back(fmt::format("--zero {}", split.zero));
  if (split.recompute != asked.recompute) out.emplace_back("--gradient_checkpointing");
  return join(out, " ");
}

parallel::RunPlan estimate(const parallel::ModelFactory& factory,
                           const options::TrainingArguments& arguments,
                           const dataset::Dataset& data, int num_ranks) {
  return Estimator(factory, arguments, {data, num_ranks}).plan();
}

}  // namespace convoy::planner
