#include "convoy/parallel/run_plan/run_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/parallel/context/context_check.h"
#include "convoy/parallel/first_names.h"
#include "convoy/parallel/pipeline/pipeline.h"
#include "convoy/parallel/program/counts.h"
#include "convoy/parallel/refuse.h"
#include "convoy/parallel/row_tables/table_check.h"
#include "convoy/parallel/run_plan/choose.h"
#include "convoy/parallel/run_plan/plan_again.h"

namespace convoy::parallel {

namespace {

LayoutOptions layout_options(const ModelDecl& model, const Mesh& mesh,
                             const Parallelism& parallelism, const StepFacts& facts,
                             const Cut& cut) {
  LayoutOptions out{.parallelism = parallelism,
                    .num_parts = mesh.degree(kState),
                    .num_context_ranks = mesh.degree(Axis::Context),
                    .low_precision = facts.low_precision && !model.has_modules(),
                    .shares_weights = facts.shares_weights,
                    .trains = facts.trains,
                    .tensor = {mesh.place(Axis::Tensor), mesh.degree(Axis::Tensor),
                               mesh.place(Axis::Expert), mesh.degree(Axis::Expert)}};
  if (!cut.empty()) {
    out.stages = stages_of(cut);
    out.pipeline_stage = mesh.place(Axis::Pipeline);
  }
  return out;
}

/// Blocks that can be recomputed: all but the last one, whose backward follows at once.
std::set<int64_t> repeatable(const ModelDecl& model) {
  std::set<int64_t> out;
  for (size_t b = 0; b + 1 < model.blocks.size(); ++b) {
    if (model.blocks[b].repeatable) out.insert(static_cast<int64_t>(b));
  }
  return out;
}

StepOptions step_options(const ModelDecl& model, const Parallelism& parallelism) {
  StepOptions out{.parallelism = parallelism};
  if (!parallelism.recompute) return out;
  out.recomputed = repeatable(model);
  if (out.recomputed.empty()) {
    fail<UsageError>(
        "parallel",
        "gradient_checkpointing needs a model of several blocks; got {}; try without it",
        model.blocks.size() == 1 ? "one" : "modules whose forward cannot be repeated");
  }
  return out;
}

/// Returns the largest number of tensor ranks that each get some of a parameter.
int64_t most_ranks(const ParamDecl& param) {
  const bool is_table = !param.read_in_backward && param.cut.dim == 0;
  // A rank may have no row of a small table.
  if (param.cut.dim < 0 || is_table) return std::numeric_limits<int64_t>::max();
  return most_ranks(param.shape, param.cut);
}

/// Throws UsageError where not all blocks take so many tensor ranks, or shares of tokens.
void check_tensor_ranks(const ModelDecl& model, int num_ranks, bool share_tokens) {
  if (num_ranks == 1) return;
  std::vector<std::string> unable, whole, coarse;
  for (const auto& block : model.blocks) {
    if (!block.takes_tensor_ranks) unable.push_back(block.name);
    if (!block.takes_sequence_parallel) whole.push_back(block.name);
  }
  if (!unable.empty()) {
    fail<UsageError>("parallel",
                     "tensor_parallel_size = {} needs blocks that compute with a part of their "
                     "weights (docs/tensor.md says of which models); {} of this model's {} do not: "
                     "{}; try data parallelism, --zero 3, or --pipeline_parallel_size",
                     num_ranks, unable.size(), model.blocks.size(), first_names(unable));
  }
  if (share_tokens && !whole.empty()) {
    fail<UsageError>("parallel",
                     "sequence_parallel needs blocks that compute with a rank's share of the "
                     "tokens (docs/tensor.md says of which models); {} of this model's {} do not: "
                     "{}; try without it",
                     whole.size(), model.blocks.size(), first_names(whole));
  }
  int64_t most = num_ranks;
  for (const auto& param : model.params) {
    const int64_t fit = most_ranks(param);
    if (fit >= num_ranks) continue;
    most = std::min(most, fit);
    coarse.push_back(fmt::format("{} {}", param.name, fit));
  }
  if (coarse.empty()) return;
  while (num_ranks % most != 0) --most;  // goes with as many processes
  fail<UsageError>(
      "parallel",
      "tensor_parallel_size = {} is more than the heads, ids or inner units that "
      "weights consist of: {}; try {}",
      num_ranks, first_names(coarse),
      most > 1 ? fmt::format("--tensor_parallel_size {}", most) : "other ways to use the ranks");
}

/// Throws UsageError where the experts of a layer cannot be dealt out to so many ranks.
void check_expert_ranks(const ModelDecl& model, int num_ranks) {
  if (num_ranks == 1) return;
  const int64_t experts = common_experts(model);
  if (experts == 0) {
    fail<UsageError>("parallel",
                     "expert_parallel_size = {} deals out the experts of a layer, and this model "
                     "has none (docs/experts.md names the families that have); try without it",
                     num_ranks);
  }
  if (experts % num_ranks == 0) return;
  int64_t most = std::min<int64_t>(num_ranks, experts);
  while (experts % most != 0) --most;
  fail<UsageError>(
      "parallel",
      "expert_parallel_size = {} does not divide the {} experts of a layer, of which each rank has "
      "as many; try {}",
      num_ranks, experts,
      most > 1 ? fmt::format("--expert_parallel_size {}", most) : "other ways to use the ranks");
}

/// Options with the degrees of the mesh.
Parallelism on_mesh(Parallelism parallelism, const Mesh& mesh) {
  parallelism.ranks = {mesh.degree(Axis::Pipeline), mesh.degree(Axis::Replicate),
                       mesh.degree(Axis::Shard),    mesh.degree(Axis::Expert),
                       mesh.degree(Axis::Context),  mesh.degree(Axis::Tensor)};
  return parallelism;
}

/// Throws UsageError for what does not go with the mesh, whose degrees `parallelism` has, or with
/// the model's blocks and tables.
void check_mesh(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                const StepFacts& facts) {
  check_tensor_ranks(model, mesh.degree(Axis::Tensor), parallelism.sequence_parallel);
  check_context_ranks(model, mesh.degree(Axis::Context));
  check_expert_ranks(model, mesh.degree(Axis::Expert));
  if (parallelism.keeps_rows(facts.trains)) check_row_tables(model);
  require(refuse_experts(parallelism, facts));
  require(refuse_row_tables(parallelism, facts));
  require(refuse_recomputation(parallelism, facts));
}

using ProgramOf = Program StagePlan::*;

std::vector<RankProgram> of_pipeline(const std::vector<StagePlan>& stages, ProgramOf which) {
  std::vector<int> pipeline(stages.size());
  std::iota(pipeline.begin(), pipeline.end(), 0);
  std::vector<RankProgram> out;
  for (const auto& stage : stages) out.push_back({stage.*which, stage.layout, pipeline});
  return out;
}

RunPlan planned(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                const StepFacts& facts, const std::vector<BlockCost>& costs, bool proves,
                KnownChoices* known);

}  // namespace

std::set<int64_t> RunPlan::recomputed_by_choice() const {
  return step.parallelism.recompute ? std::set<int64_t>() : step.recomputed;
}

int64_t most_tensor_ranks(const ModelDecl& model) {
  if (std::any_of(model.blocks.begin(), model.blocks.end(),
                  [](const auto& block) { return !block.takes_tensor_ranks; })) {
    return 1;
  }
  int64_t out = std::numeric_limits<int64_t>::max();
  for (const auto& param : model.params) out = std::min(out, most_ranks(param));
  return out;
}

Costs shared_costs(const ModelDecl& model, const StepFacts& facts) {
  if (!facts.counts.empty()) return costs_of(facts.counts);
  Costs out;
  // A backward is two products for each of the forward's.
  out.forward = out.backward = block_costs(model);
  for (auto& cost : out.backward) cost *= 2;
  return out;
}

Layout layout_of(const ModelDecl& model, const LayoutOptions& options) {
  auto units = units_of(model, options.tensor.num_expert_ranks > 1);
  return {std::move(units.table), std::move(units.shapes), options};
}

RunPlan plan_run(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                 const StepFacts& facts, const std::vector<BlockCost>& costs, bool proves) {
  return planned(model, mesh, parallelism, facts, costs, proves, nullptr);
}

RunPlan plan_again(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                   const StepFacts& facts, const std::vector<BlockCost>& costs,
                   KnownChoices* known) {
  return planned(model, mesh, parallelism, facts, costs, /*proves=*/false, known);
}

namespace {

/// Memory where nothing is trained: weights, those that are gathered, and buffers.
MemoryUse memory_of_evaluation(const StagePlan& stage, const StepOptions& options) {
  const auto gathered = most_gathered(stage.forward, stage.layout);
  auto out = memory_of(stage.layout, stage.forward, options, gathered, {}, /*state_bytes=*/0).use;
  out.gradients = out.optimizer = 0;
  return out;
}

RunPlan planned(const ModelDecl& model, const Mesh& mesh, const Parallelism& parallelism,
                const StepFacts& facts, const std::vector<BlockCost>& costs, bool proves,
                KnownChoices* known) {
  const auto spread = on_mesh(parallelism, mesh);
  check_mesh(model, mesh, spread, facts);
  RunPlan out;
  out.step = step_options(model, parallelism);
  const int num_stages = mesh.degree(Axis::Pipeline);
  const auto shared = shared_costs(model, facts);
  const auto able = parallelism.recompute ? std::set<int64_t>() : repeatable(model);
  if (num_stages > 1) {
    const ChoiceInputs inputs{.model = model,
                              .parallelism = spread,
                              .facts = facts,
                              .costs = shared,
                              .recomputed = out.step.recomputed,
                              .repeatable = able};
    auto choice = known == nullptr ? choose_pipeline(inputs) : known->of(inputs);
    out.cut = std::move(choice.cut);
    out.orders = std::move(choice.orders);
    out.found = std::move(choice.found);
    out.step.recomputed = std::move(choice.recomputed);
  } else if (facts.trains && !parallelism.recompute && parallelism.recomputed.any()) {
    out.step.recomputed = blocks_of_one_stage(parallelism.recomputed, shared, able);
  }
  const auto asked = layout_options(model, mesh, parallelism, facts, out.cut);
  std::vector<Layout> layouts;
  layouts.reserve(static_cast<size_t>(num_stages));
  layouts.push_back(known == nullptr ? layout_of(model, asked) : known->layout(model, asked));
  if (num_stages > 1) {
    const auto any = std::exchange(layouts, {}).front();
    for (int s = 0; s < num_stages; ++s) layouts.push_back(any.of_stage(s));
  }
  std::vector<Program> steps;
  if (facts.trains) {
    steps = num_stages == 1 ? std::vector<Program>{data_parallel_program(layouts.front(), out.step)}
                            : pipeline_programs(out.cut, out.orders, layouts, out.step);
  }
  for (size_t s = 0; s < layouts.size(); ++s) {
    auto& stage = out.stages.emplace_back();
    stage.layout = std::move(layouts[s]);
    if (proves || !facts.trains) stage.forward = forward_program(stage.layout, out.step);
    if (facts.trains) stage.step = std::move(steps[s]);
  }
  if (proves) check_forward(of_pipeline(out.stages, &StagePlan::forward));
  if (!facts.trains) {
    for (auto& stage : out.stages) stage.memory = memory_of_evaluation(stage, out.step);
    return out;
  }
  const auto programs = of_pipeline(out.stages, &StagePlan::step);
  if (proves) {
    const auto alive = check(programs, out.step);
    for (size_t s = 0; s < out.stages.size(); ++s) out.stages[s].alive = alive[s];
  }
  for (auto& stage : out.stages) {
    const auto gathered = proves ? stage.alive.weights : most_gathered(stage.step, stage.layout);
    const auto memory =
        memory_of(stage.layout, stage.step, out.step, gathered, costs, facts.state_bytes);
    stage.memory = memory.use;
    stage.peak = memory.peak;
  }
  if (!proves) return out;
  if (num_stages > 1 || !costs.empty()) {
    out.timeline = simulate(programs, costs.empty() ? shared : costs_of(counts_of(costs)));
  }
  return out;
}

}  // namespace

double floor_of(const ModelDecl& model, const RunPlan& plan, const Parallelism& parallelism,
                const StepFacts& facts, const std::vector<BlockCost>& costs) {
  const auto by_block = costs.empty() ? shared_costs(model, facts) : costs_of(counts_of(costs));
  return floor_of(pipe_of(plan.cut, parallelism.micro_batches, by_block, plan.step.recomputed));
}

}  // namespace convoy::parallel
