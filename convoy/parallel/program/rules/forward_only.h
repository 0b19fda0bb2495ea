#pragma once

#include <optional>

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// A program that computes one micro-batch forward.
class ForwardOnlyRules {
 public:
  explicit ForwardOnlyRules(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) const {
    const bool weights = i.op == Op::Gather || i.op == Op::Release || i.op == Op::Fetch;
    const bool is_sharded =
        weights && i.kind == Kind::Weights && steps_.layout().is_sharded(i.kind, i.bucket);
    const bool computes =
        i.op == Op::Load || i.op == Op::Forward || i.op == Op::FetchRows || i.op == Op::ScoreRows;
    steps_.require(computes || i.op == Op::Send || i.op == Op::Receive || is_sharded, i,
                   "is no part of a forward program");
  }

  /// Returns the first instruction that the end of the program lacks, if any.
  std::optional<Instruction> missing() const {
    for (int64_t block = 0; block < steps_.num_blocks(); ++block) {
      const Instruction i{.op = Op::Forward, .block = block, .micro_batch = 0};
      if (steps_.layout().holds(block) && !steps_.did(i)) return i;
    }
    for (const int64_t unit : steps_.layout().row_units()) {
      const Instruction i{.op = Op::ScoreRows, .unit = unit};
      if (!steps_.did(i)) return i;
    }
    for (int64_t bucket = 0; bucket < steps_.layout().num_buckets(); ++bucket) {
      if (steps_.did({.op = Op::Gather, .bucket = bucket})) {
        return Instruction{.op = Op::Release, .bucket = bucket};
      }
    }
    return {};
  }

 private:
  Steps& steps_;
};

}  // namespace convoy::parallel::rules
