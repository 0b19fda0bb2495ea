#pragma once

#include <optional>

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// Units that are kept by rows: fetched before anything computes, their gradient summed over the
/// micro-batches and then over the ranks, updated at the end. In a forward program all rows are
/// scored once the last block has run.
class RowRules {
 public:
  RowRules(Steps& steps, const StepOptions& options)
      : steps_(steps), num_micro_batches_(options.parallelism.micro_batches) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    const auto& units = layout.row_units();
    if (units.empty()) return;
    switch (i.op) {
      case Op::FetchRows:
      case Op::ReduceRows:
      case Op::UpdateRows:
      case Op::ScoreRows:
        if (i.op == Op::ReduceRows) steps_.need(i, accumulation(i.unit, num_micro_batches_ - 1));
        if (i.op == Op::UpdateRows) steps_.need(i, {Op::Clip});
        if (i.op == Op::ScoreRows) {
          steps_.need(i, {.op = Op::Forward, .block = steps_.num_blocks() - 1, .micro_batch = 0});
        }
        steps_.do_once(i);
        break;
      case Op::Forward:
        for (const int64_t unit : units) steps_.need(i, {.op = Op::FetchRows, .unit = unit});
        break;
      case Op::Accumulate:
        if (!layout.is_by_rows(i.unit)) return;
        steps_.need(i, steps_.weight_half(layout.first_reader_of_rows(i.unit), i.micro_batch));
        // The bits of a sum depend on its order.
        if (i.micro_batch > 0) steps_.need(i, accumulation(i.unit, i.micro_batch - 1));
        steps_.do_once(i);
        break;
      case Op::ReduceLoss:
        for (const int64_t unit : units) steps_.need(i, {.op = Op::ReduceRows, .unit = unit});
        break;
      default:
        break;
    }
  }

  /// Returns the first instruction that the end of a step lacks, if any.
  std::optional<Instruction> missing() const {
    for (const int64_t unit : steps_.layout().row_units()) {
      const Instruction i{.op = Op::UpdateRows, .unit = unit};
      if (!steps_.did(i)) return i;
    }
    return {};
  }

 private:
  static Instruction accumulation(int64_t unit, int64_t m) {
    return {.op = Op::Accumulate, .unit = unit, .micro_batch = m};
  }

  Steps& steps_;
  int64_t num_micro_batches_;
};

}  // namespace convoy::parallel::rules
