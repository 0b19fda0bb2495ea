#include "convoy/parallel/program/check.h"

#include <algorithm>
#include <optional>

#include "convoy/base/error.h"
#include "convoy/parallel/program/rules/blocks.h"
#include "convoy/parallel/program/rules/forward_only.h"
#include "convoy/parallel/program/rules/gradients.h"
#include "convoy/parallel/program/rules/offloaded.h"
#include "convoy/parallel/program/rules/rows.h"
#include "convoy/parallel/program/rules/updates.h"
#include "convoy/parallel/program/rules/weights.h"
#include "convoy/parallel/program/steps.h"

namespace convoy::parallel {

namespace {

/// Passes every instruction to all rules.
template <class... Rules>
void play(const Program& program, int64_t num_micro_batches, const Steps& steps, Rules&... rules) {
  for (const auto& i : program) {
    steps.check_operands(i, num_micro_batches);
    (rules.see(i), ...);
  }
}

void require_complete(size_t rank, const std::optional<Instruction>& missing) {
  internal_check(!missing, "parallel", "rank {} ends without '{}'", rank,
                 missing ? to_text(*missing) : "");
}

Alive most_alive(const RankProgram& rank, const StepOptions& options) {
  Alive now, most;
  most.weights = most_gathered(rank.program, rank.layout);
  for (const auto& i : rank.program) {
    const bool again = options.recomputed.contains(i.block);
    if (i.op == Op::Forward) ++(again ? now.inputs : now.blocks);
    if (i.op == Op::Recompute) ++now.blocks;
    if (i.op == Op::Backward || i.op == Op::BackwardInput) {
      --now.blocks;
      now.inputs -= again;
    }
    if (i.op == Op::BackwardInput) ++now.put_off;
    if (i.op == Op::BackwardWeight) --now.put_off;
    most.blocks = std::max(most.blocks, now.blocks);
    most.inputs = std::max(most.inputs, now.inputs);
    most.put_off = std::max(most.put_off, now.put_off);
  }
  return most;
}

}  // namespace

std::vector<Alive> check(const std::vector<RankProgram>& ranks, const StepOptions& options) {
  std::vector<Alive> alive;
  Holders holders(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto number = static_cast<int>(r);
    Steps steps(number, ranks[r], holders.of(ranks[r]));
    rules::BlockRules blocks(steps, options);
    rules::WeightRules weights(steps);
    rules::GradientRules gradients(steps, options);
    rules::OffloadRules offloaded(steps);
    rules::UpdateRules updates(steps);
    rules::RowRules rows(steps, options);
    play(ranks[r].program, options.parallelism.micro_batches, steps, updates, blocks, weights,
         gradients, offloaded, rows);
    require_complete(r, updates.missing());
    require_complete(r, rows.missing());
    require_complete(r, offloaded.missing());
    alive.push_back(most_alive(ranks[r], options));
  }
  check_matching(ranks);
  return alive;
}

Alive check(const Program& program, const Layout& layout, const StepOptions& options) {
  return check({{program, layout}}, options).front();
}

void check_forward(const std::vector<RankProgram>& ranks) {
  const StepOptions options;
  Holders holders(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    Steps steps(static_cast<int>(r), ranks[r], holders.of(ranks[r]));
    rules::ForwardOnlyRules forward(steps);
    rules::BlockRules blocks(steps, options);
    rules::WeightRules weights(steps);
    rules::OffloadRules offloaded(steps);
    rules::RowRules rows(steps, options);
    play(ranks[r].program, options.parallelism.micro_batches, steps, forward, blocks, weights,
         offloaded, rows);
    require_complete(r, forward.missing());
  }
  check_matching(ranks);
}

}  // namespace convoy::parallel
