#pragma once

#include "convoy/schedule/program.h"
#include "tests/schedule/testing.h"

namespace convoy::schedule {

/// Programs of a pipeline of two stages, written by hand: the first has two blocks, the second all
/// others; two micro-batches.
class TwoStages {
 public:
  /// `layout`: of the stage that the program is for.
  TwoStages(const Layout& layout, const StepOptions& options)
      : layout_(layout),
        options_(options),
        first_(layout.holds(0) ? 0 : 2),
        end_(first_ == 0 ? 2 : layout.table().num_blocks()),
        finished_(layout.table().units_finished_by_block()) {}

  /// All forwards, then all backwards.
  Program all_forwards_first() {
    start(0);
    start(1);
    backward(0);
    backward(1);
    return end();
  }

  /// One forward, one backward; what crosses is exchanged.
  Program one_forward_one_backward() {
    start(0);
    if (first_ == 0) {
      start(1, false);
      exchange(over(Op::Send, 1), over(Op::ReceiveGrad, 0));
      backward(0, false);
    } else {
      backward(0, false);
      add(load(1));
      exchange(over(Op::SendGrad, 0), over(Op::Receive, 1));
      start(1, false);
    }
    backward(1);
    return end();
  }

  static Instruction load(int64_t m) { return {.op = Op::Load, .micro_batch = m}; }
  /// The border between the stages.
  static Instruction over(Op op, int64_t m) {
    const bool to_second = op == Op::Send || op == Op::ReceiveGrad;
    return {.op = op, .block = 1, .micro_batch = m, .peer = to_second ? 1 : 0};
  }

 private:
  void add(const Instruction& i) { program_.push_back(i); }
  void exchange(Instruction one, const Instruction& other) {
    one.with_next = true;
    add(one);
    add(other);
  }

  void start(int64_t m, bool crosses = true) {
    if (first_ == 0 || crosses) add(load(m));
    if (first_ == 2 && crosses) add(over(Op::Receive, m));
    for (int64_t block = first_; block < end_; ++block) {
      add({.op = Op::Forward, .block = block, .micro_batch = m});
    }
    if (first_ == 2) add({.op = Op::Loss, .micro_batch = m});
    if (first_ == 0 && crosses) add(over(Op::Send, m));
  }

  void backward(int64_t m, bool crosses = true) {
    if (first_ == 0 && crosses) add(over(Op::ReceiveGrad, m));
    for (int64_t block = end_ - 1; block >= first_; --block) {
      if (options_.recomputed.contains(block)) {
        add({.op = Op::Recompute, .block = block, .micro_batch = m});
      }
      add({.op = Op::Backward, .block = block, .micro_batch = m});
      for (const int64_t unit : finished_[static_cast<size_t>(block)]) {
        add({.op = Op::Accumulate, .unit = unit, .micro_batch = m});
        reduce(layout_.bucket_of(unit), m);
      }
    }
    if (first_ == 2 && crosses) add(over(Op::SendGrad, m));
  }

  /// One bucket per unit.
  void reduce(int64_t bucket, int64_t m) {
    const bool each = layout_.in_slices(Kind::Gradients) && options_.reduce_each;
    if (m == 0 && !each) return;
    if (layout_.shares_out_updates()) {
      add({.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m});
    } else {
      add({.op = Op::Reduce, .bucket = bucket});
    }
  }

  Program end() {
    add({Op::ReduceLoss});
    add({Op::Clip});
    for (int64_t bucket = layout_.num_buckets() - 1; bucket >= 0; --bucket) {
      add({.op = Op::Update, .bucket = bucket});
      if (layout_.shares_out_updates() && !layout_.in_slices(Kind::Weights)) {
        add({.op = Op::Gather, .bucket = bucket});
      }
    }
    return with_gathers(program_, layout_, options_);
  }

  const Layout& layout_;
  const StepOptions& options_;
  int64_t first_, end_;
  std::vector<std::vector<int64_t>> finished_;
  Program program_;
};

}  // namespace convoy::schedule
