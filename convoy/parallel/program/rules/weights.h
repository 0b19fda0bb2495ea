#pragma once

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// Weights that are gathered when they are read.
class WeightRules {
 public:
  explicit WeightRules(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Gather && is_sharded(i.bucket)) {
      require_release(i, i.bucket);
      steps_.do_once(i);
    } else if (i.op == Op::Release) {
      steps_.require(is_sharded(i.bucket), i, "releases what is kept whole");
      steps_.need(i, gather_of(i.bucket));
      steps_.undo(gather_of(i.bucket));
    }
    for (const int64_t bucket : reads(i, layout)) {
      if (is_sharded(bucket)) steps_.need(i, gather_of(bucket));
    }
    if (i.op != Op::ReduceLoss) return;
    for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) require_release(i, bucket);
  }

 private:
  static Instruction gather_of(int64_t bucket) { return {.op = Op::Gather, .bucket = bucket}; }
  bool is_sharded(int64_t bucket) const {
    return steps_.layout().is_sharded(Kind::Weights, bucket);
  }
  void require_release(const Instruction& i, int64_t bucket) const {
    steps_.require_before(!steps_.did(gather_of(bucket)), i, {.op = Op::Release, .bucket = bucket});
  }

  Steps& steps_;
};

}  // namespace convoy::parallel::rules
