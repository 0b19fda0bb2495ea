#pragma once

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// Forwards and backwards of blocks in their order.
class BlockRules {
 public:
  BlockRules(Steps& steps, const StepOptions& options)
      : steps_(steps), options_(options), virtual_stages_(steps.layout().virtual_stages()) {}

  void see(const Instruction& i) {
    const int64_t b = i.block, m = i.micro_batch;
    switch (i.op) {
      case Op::Forward:
        steps_.need(i, {.op = Op::Load, .micro_batch = m});
        if (b > 0) steps_.need(i, output_of(b - 1, m));
        break;
      case Op::Loss:
        steps_.need(i, {.op = Op::Forward, .block = steps_.num_blocks() - 1, .micro_batch = m});
        break;
      case Op::Recompute:
        steps_.require(b + 1 < steps_.num_blocks(), i, "recomputes the last block");
        steps_.need(i, gradient_after(b, m));
        steps_.require(!steps_.did(steps_.input_half(b, m)), i, "comes after its backward");
        break;
      case Op::Backward:
        steps_.require(!steps_.is_in_halves(b, m), i, "comes beside its halves");
        [[fallthrough]];
      case Op::BackwardInput:
        steps_.need(i, {.op = Op::Forward, .block = b, .micro_batch = m});
        steps_.need(i, gradient_after(b, m));
        if (options_.recomputed.contains(b)) {
          steps_.need(i, {.op = Op::Recompute, .block = b, .micro_batch = m});
        }
        break;
      case Op::BackwardWeight:
        steps_.need(i, steps_.input_half(b, m));
        break;
      case Op::Send:
        steps_.need(i, {.op = Op::Forward, .block = b, .micro_batch = m});
        break;
      case Op::SendGrad:
        steps_.need(i, steps_.input_half(b + 1, m));
        break;
      case Op::ReceiveGrad:
        steps_.need(i, sending(Op::Send, b, m, b + 1));
        break;
      case Op::ReduceLoss:
        for (int64_t each = 0; each < options_.parallelism.micro_batches; ++each)
          expect_all(i, each);
        return;
      case Op::Receive:
        steps_.need(i, {.op = Op::Load, .micro_batch = m});
        break;
      case Op::Load:
        break;
      default:
        return;
    }
    steps_.do_once(i);
  }

 private:
  bool holds(int64_t block) const { return steps_.layout().holds(block); }
  Instruction sending(Op op, int64_t block, int64_t m, int64_t other) const {
    return {.op = op, .block = block, .micro_batch = m, .peer = steps_.holder(other)};
  }
  Instruction output_of(int64_t block, int64_t m) const {
    if (holds(block)) return {.op = Op::Forward, .block = block, .micro_batch = m};
    return sending(Op::Receive, block, m, block);
  }
  /// Instruction that gives the gradient of a block's result.
  Instruction gradient_after(int64_t block, int64_t m) const {
    if (block + 1 == steps_.num_blocks()) return {.op = Op::Loss, .micro_batch = m};
    if (holds(block + 1)) return steps_.input_half(block + 1, m);
    return sending(Op::ReceiveGrad, block, m, block + 1);
  }
  void expect_all(const Instruction& i, int64_t m) const {
    for (const auto& [first, last] : virtual_stages_) {
      for (int64_t block = first; block <= last; ++block) {
        steps_.need(i, steps_.weight_half(block, m));
      }
      if (first > 0) steps_.need(i, sending(Op::SendGrad, first - 1, m, first - 1));
    }
  }

  Steps& steps_;
  const StepOptions& options_;
  VirtualStages virtual_stages_;
};

}  // namespace convoy::parallel::rules
