#include "convoy/schedule/run/run_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <tuple>

#include "convoy/base/error.h"
#include "convoy/schedule/pipeline/plan.h"

namespace convoy::schedule {

namespace {

LayoutOptions layout_options(const ModelDecl& model, const Mesh& mesh, const RunOptions& options,
                             const Cut& cut) {
  LayoutOptions out;
  out.stage = static_cast<int>(options.zero);
  out.num_parts = mesh.degree(kState);
  out.low_precision = options.low_precision && !model.has_modules();
  out.shares_weights = options.shares_weights;
  out.tensor = {mesh.place(Axis::Tensor), mesh.degree(Axis::Tensor)};
  out.bucket_bytes = options.bucket_bytes;
  out.keep_bytes = options.keep_bytes;
  if (!cut.empty()) {
    out.stages = stages_of(cut);
    out.pipeline_stage = mesh.place(Axis::Pipeline);
  }
  const auto& offload = options.offload;
  out.offload_optimizer = options.trains && offload.optimizer != Place::Device;
  out.offload_gradients = options.trains && offload.gradients != Place::Device;
  out.offload_parameters = offload.parameters != Place::Device;
  return out;
}

StepOptions step_options(const ModelDecl& model, const RunOptions& options) {
  StepOptions out{options.num_micro_batches,
                  {},
                  options.prefetch,
                  options.reshard_after_forward,
                  options.reduce_each};
  if (!options.recompute) return out;
  for (size_t b = 0; b + 1 < model.blocks.size(); ++b) {  // the last one's backward follows at once
    if (model.blocks[b].repeatable) out.recomputed.insert(static_cast<int64_t>(b));
  }
  if (out.recomputed.empty()) {
    fail<UsageError>(
        "parallel",
        "gradient_checkpointing needs a model of several blocks; got {}; try without it",
        model.blocks.size() == 1 ? "one" : "modules whose forward cannot be repeated");
  }
  return out;
}

/// `names` but for what a line has no room for.
std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 3;
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size())));
  return fmt::format("{}{}", fmt::join(first, ", "),
                     names.size() > kMost ? fmt::format(" and {} more", names.size() - kMost) : "");
}

/// Throws UsageError where not all blocks take so many tensor ranks.
void check_tensor_ranks(const ModelDecl& model, int num_ranks) {
  if (num_ranks == 1) return;
  std::vector<std::string> unable, coarse;
  for (const auto& block : model.blocks) {
    if (!block.takes_tensor_ranks) unable.push_back(block.name);
  }
  if (!unable.empty()) {
    fail<UsageError>("parallel",
                     "tensor_parallel_size = {} needs blocks that compute with a part of their "
                     "weights, as those of all families here do; {} of this model's {} do not: "
                     "{}; try data parallelism, --zero 3, or --pipeline_parallel_size",
                     num_ranks, unable.size(), model.blocks.size(), listed(unable));
  }
  int64_t most = num_ranks;
  for (const auto& param : model.params) {
    const bool is_table = !param.read_in_backward && param.cut.dim == 0;
    if (param.cut.dim < 0 || is_table) continue;  // a rank may have no row of a small table
    const int64_t fit = most_ranks(param.shape, param.cut);
    if (fit >= num_ranks) continue;
    most = std::min(most, fit);
    coarse.push_back(fmt::format("{} {}", param.name, fit));
  }
  if (coarse.empty()) return;
  fail<UsageError>(
      "parallel",
      "tensor_parallel_size = {} is more than the heads, ids or inner units that "
      "weights consist of: {}; try {}",
      num_ranks, listed(coarse),
      most > 1 ? fmt::format("--tensor_parallel_size {}", most) : "other ways to use the ranks");
}

using ProgramOf = Program StagePlan::*;

std::vector<RankProgram> of_pipeline(const std::vector<StagePlan>& stages, ProgramOf which) {
  std::vector<int> pipeline(stages.size());
  std::iota(pipeline.begin(), pipeline.end(), 0);
  std::vector<RankProgram> out;
  for (const auto& stage : stages) out.push_back({stage.*which, stage.layout, pipeline});
  return out;
}

/// What stages are cut by, the same on all ranks.
Costs products_of(const ModelDecl& model, const RunOptions& options) {
  Costs out;
  if (options.products.empty()) {
    // A backward is two products for each of the forward's.
    out.forward = out.backward = block_costs(model);
    for (auto& cost : out.backward) cost *= 2;
  }
  for (const auto& block : options.products) {
    out.forward.push_back(block.forward);
    out.backward.push_back(block.backward);
  }
  return out;
}

Costs measured(const std::vector<BlockCost>& costs) {
  Costs out;
  for (const auto& cost : costs) {
    out.forward.push_back(cost.forward_seconds);
    out.backward.push_back(cost.backward_seconds);
    out.kept.push_back(static_cast<double>(cost.kept_bytes));
    out.inputs.push_back(static_cast<double>(cost.returned_bytes));
  }
  return out;
}

/// Virtual stages that a rank has; with auto at most.
int virtual_stages_of(const PipelineOptions& options) {
  return entry_of(options.schedule).interleaved ? static_cast<int>(options.virtual_stages) : 1;
}

std::string with_virtual_stages(int number) {
  return number > 1 ? fmt::format(" with {} virtual stages each", number) : "";
}

void check_number_of_blocks(const ModelDecl& model, int num_stages,
                            const PipelineOptions& options) {
  const bool searches = options.schedule == PipelineSchedule::Automatic;
  const int virtual_stages = searches ? 1 : virtual_stages_of(options);
  const auto num_blocks = static_cast<int64_t>(model.blocks.size());
  if (num_blocks >= static_cast<int64_t>(num_stages) * virtual_stages) return;
  std::vector<std::string> names;
  for (const auto& block : model.blocks) names.push_back(block.name);
  const int64_t fit = num_blocks / num_stages;
  fail<UsageError>(
      "parallel", "a pipeline of {} stages{} needs as many blocks; got a model of {} ({}); try {}",
      num_stages, with_virtual_stages(virtual_stages), num_blocks, fmt::join(names, ", "),
      fit > 1   ? fmt::format("pipeline_virtual_stages = {}", fit)
      : fit > 0 ? "pipeline_schedule = 1f1b"
                : "a smaller pipeline_parallel_size");
}

/// Where splits are given.
Cut split_at(const std::vector<int64_t>& splits, int64_t num_blocks, int num_stages,
             const PipelineOptions& options) {
  const bool searches = options.schedule == PipelineSchedule::Automatic;
  const int given = static_cast<int>(splits.size()) + 1;
  const int virtual_stages = searches ? given / num_stages : virtual_stages_of(options);
  if (given != num_stages * virtual_stages) {
    fail<UsageError>("parallel",
                     "pipeline_splits = {} makes {} virtual stages; expected {} numbers for {} "
                     "stages{}",
                     fmt::join(splits, ","), given, num_stages * std::max(1, virtual_stages) - 1,
                     num_stages, with_virtual_stages(virtual_stages));
  }
  int64_t before = 0;
  for (const int64_t begin : splits) {
    if (begin <= before || begin >= num_blocks) {
      fail<UsageError>("parallel",
                       "pipeline_splits = {} must ascend between 1 and {}, the last block of the "
                       "model; got {}",
                       fmt::join(splits, ","), num_blocks - 1, begin);
    }
    before = begin;
  }
  return cut_at(splits, num_blocks, num_stages, options.placement.value_or(Placement::Loop));
}

/// Which rank has which blocks, and what it does in which order.
std::pair<Cut, Orders> pipeline_of(const ModelDecl& model, int num_stages,
                                   const RunOptions& options, const std::set<int64_t>& recomputed,
                                   const Costs& costs) {
  const auto& pipeline = options.pipeline;
  check_number_of_blocks(model, num_stages, pipeline);
  const bool joins = options.zero >= 2 && options.reduce_each;
  if (pipeline.splits.empty()) {
    auto plan = plan_pipeline(costs, {.num_stages = num_stages,
                                      .num_micro_batches = options.num_micro_batches,
                                      .schedule = pipeline.schedule,
                                      .virtual_stages = virtual_stages_of(pipeline),
                                      .placement = pipeline.placement,
                                      .recomputed = recomputed,
                                      .joins_neighbours = joins});
    return {std::move(plan.cut), std::move(plan.orders)};
  }
  const auto num_blocks = static_cast<int64_t>(model.blocks.size());
  auto cut = split_at(pipeline.splits, num_blocks, num_stages, pipeline);
  if (joins) cut = joined(cut);
  auto orders = entry_of(pipeline.schedule)
                    .orders(pipe_of(cut, options.num_micro_batches, costs, recomputed));
  return {std::move(cut), std::move(orders)};
}

}  // namespace

Layout layout_of(const ModelDecl& model, const LayoutOptions& options) {
  auto units = units_of(model);
  return {std::move(units.table), std::move(units.shapes), options};
}

RunPlan plan_run(const ModelDecl& model, const Mesh& mesh, const RunOptions& options,
                 const std::vector<BlockCost>& costs, bool proves) {
  check_tensor_ranks(model, mesh.degree(Axis::Tensor));
  RunPlan out;
  out.step = step_options(model, options);
  const int num_stages = mesh.degree(Axis::Pipeline);
  const auto products = products_of(model, options);
  if (num_stages > 1) {
    std::tie(out.cut, out.orders) =
        pipeline_of(model, num_stages, options, out.step.recomputed, products);
  }
  const auto layout = layout_of(model, layout_options(model, mesh, options, out.cut));
  std::vector<Layout> layouts;
  for (int s = 0; s < num_stages; ++s) {
    layouts.push_back(num_stages == 1 ? layout : layout.of_stage(s));
  }
  std::vector<Program> steps;
  if (options.trains) {
    steps = num_stages == 1 ? std::vector<Program>{data_parallel_program(layout, out.step)}
                            : pipeline_programs(out.cut, out.orders, layouts, out.step);
  }
  for (size_t s = 0; s < layouts.size(); ++s) {
    auto& stage = out.stages.emplace_back();
    stage.layout = std::move(layouts[s]);
    stage.forward = forward_program(stage.layout, out.step);
    if (options.trains) stage.step = std::move(steps[s]);
  }
  if (proves) check_forward(of_pipeline(out.stages, &StagePlan::forward));
  if (!options.trains) return out;
  const auto programs = of_pipeline(out.stages, &StagePlan::step);
  if (proves) {
    const auto alive = check(programs, out.step);
    for (size_t s = 0; s < out.stages.size(); ++s) out.stages[s].alive = alive[s];
  }
  for (auto& stage : out.stages) {
    const auto gathered = proves ? stage.alive.weights : most_gathered(stage.step, stage.layout);
    stage.memory =
        memory_of(stage.layout, stage.step, out.step, gathered, costs, options.state_bytes);
  }
  if (!proves) return out;
  if (num_stages > 1 || !costs.empty()) {
    out.timeline = simulate(programs, costs.empty() ? products : measured(costs));
  }
  return out;
}

double floor_of(const ModelDecl& model, const RunPlan& plan, const RunOptions& options,
                const std::vector<BlockCost>& costs) {
  const auto by_block = costs.empty() ? products_of(model, options) : measured(costs);
  return floor_of(pipe_of(plan.cut, options.num_micro_batches, by_block, plan.step.recomputed));
}

double state_bytes_of_parameter(const Mesh& mesh, const RunOptions& options) {
  const int ranks = mesh.degree(kState);
  const auto share = [&](int64_t stage, Place place, double bytes) {
    return place != Place::Device ? 0.0 : bytes / (options.zero >= stage ? ranks : 1);
  };
  const auto& offload = options.offload;
  return share(1, offload.optimizer, static_cast<double>(options.state_bytes)) +
         share(2, offload.gradients, sizeof(float)) + share(3, offload.parameters, sizeof(float));
}

}  // namespace convoy::schedule
