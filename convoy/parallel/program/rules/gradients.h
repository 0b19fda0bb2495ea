#pragma once

#include <map>
#include <utility>
#include <vector>

#include "convoy/parallel/program/reduces_each.h"
#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// Sums of gradients over blocks, micro-batches and ranks.
class GradientRules {
 public:
  GradientRules(Steps& steps, const StepOptions& options)
      : steps_(steps),
        num_micro_batches_(options.parallelism.micro_batches),
        each_(reduces_each(steps.layout(), options.parallelism)) {
    const auto& table = steps.layout().table();
    std::map<int64_t, int64_t> reader;  // [unit] that was seen last
    later_readers_.resize(table.units_of_block.size());
    for (int64_t block = table.num_blocks() - 1; block >= 0; --block) {
      for (const int64_t unit : table.units_of_block[static_cast<size_t>(block)]) {
        const auto [last, first_seen] = reader.try_emplace(unit, block);
        if (first_seen || table.is_frozen(unit)) continue;
        later_readers_[static_cast<size_t>(block)].push_back(std::exchange(last->second, block));
      }
    }
  }

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Accumulate && layout.is_by_rows(i.unit)) return;  // see Rows
    if (i.op == Op::Backward || i.op == Op::BackwardWeight) {
      for (const int64_t later : later_readers_[static_cast<size_t>(i.block)]) {
        steps_.need(i, steps_.weight_half(later, i.micro_batch));
      }
    }
    if (i.op == Op::Accumulate) {
      const int64_t last_reader = layout.table().last_reader_in_backward(i.unit);
      steps_.need(i, steps_.weight_half(last_reader, i.micro_batch));
      // The bits of a sum depend on its order.
      if (i.micro_batch > 0) steps_.need(i, accumulation(i.unit, i.micro_batch - 1));
      if (i.micro_batch > 0 && each_) {
        steps_.need(i, reduction(layout.bucket_of(i.unit), i.micro_batch - 1));
      }
      steps_.do_once(i);
    } else if (i.op == Op::ReduceTensor) {
      const bool due = each_ || i.micro_batch + 1 == num_micro_batches_;
      steps_.require(due, i, "comes before the last micro-batch");
      steps_.need(i, accumulation(i.unit, i.micro_batch));
      steps_.do_once(i);
    } else if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
      steps_.require((i.op == Op::ReduceScatter) == layout.shares_out_updates(), i,
                     "is not what the layout asks for");
      const int64_t last = each_ ? i.micro_batch : num_micro_batches_ - 1;
      for (const int64_t unit : layout.buckets()[static_cast<size_t>(i.bucket)].units) {
        steps_.need(i, accumulation(unit, last));
        if (layout.sums_over_tensor(unit)) {
          steps_.need(i, {.op = Op::ReduceTensor, .unit = unit, .micro_batch = last});
        }
      }
      // Later micro-batches would add to what is reduced already.
      steps_.do_once(reduction(i.bucket, last));
    } else if (i.op == Op::ReduceTied) {
      require_reduced(i, layout.bucket_of(i.unit));
      steps_.do_once(i);
    } else if (i.op == Op::ReduceLoss) {
      for (int64_t unit = 0; unit < layout.table().num_units(); ++unit) {
        if (!layout.is_tied(unit) || layout.table().is_frozen(unit)) continue;
        steps_.need(i, {.op = Op::ReduceTied, .unit = unit});
      }
      for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) {
        require_reduced(i, bucket);
      }
    }
  }

 private:
  void require_reduced(const Instruction& i, int64_t bucket) const {
    for (int64_t m = each_ ? 0 : num_micro_batches_ - 1; m < num_micro_batches_; ++m) {
      steps_.need(i, reduction(bucket, m));
    }
  }
  static Instruction accumulation(int64_t unit, int64_t m) {
    return {.op = Op::Accumulate, .unit = unit, .micro_batch = m};
  }
  Instruction reduction(int64_t bucket, int64_t m) const {
    if (!steps_.layout().shares_out_updates()) return {.op = Op::Reduce, .bucket = bucket};
    return {.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m};
  }

  Steps& steps_;
  int64_t num_micro_batches_;
  bool each_;
  /// [block] What gives to one of its units right before it: sums go from the last block down.
  std::vector<std::vector<int64_t>> later_readers_;
};

}  // namespace convoy::parallel::rules
