#pragma once

#include <optional>

#include "convoy/parallel/program/steps.h"

namespace convoy::parallel::rules {

/// End of a step.
class UpdateRules {
 public:
  explicit UpdateRules(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) {
    const bool gathers = i.op == Op::Gather && steps_.layout().gathers_updates(i.bucket);
    const bool ends = i.op == Op::Update || i.op == Op::UpdateRows || i.op == Op::Fetch ||
                      i.op == Op::Store || gathers;
    steps_.require(!steps_.did(kClip) || ends, i, "comes after clip, or twice");
    if (i.op == Op::Clip) steps_.need(i, kReduceLoss);
    if (i.op == Op::Update) steps_.need(i, kClip);
    if (gathers) steps_.need(i, {.op = Op::Update, .bucket = i.bucket});
    if (i.op == Op::ReduceLoss || i.op == Op::Clip || i.op == Op::Update || gathers) {
      steps_.do_once(i);
    }
  }

  /// Returns the first instruction that the end of the program lacks, if any.
  std::optional<Instruction> missing() const {
    for (const auto& i : {kReduceLoss, kClip}) {
      if (!steps_.did(i)) return i;
    }
    const auto& layout = steps_.layout();
    for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) {
      for (const Op op : {Op::Update, Op::Gather}) {
        const Instruction i{.op = op, .bucket = bucket};
        if ((op == Op::Update || layout.gathers_updates(bucket)) && !steps_.did(i)) return i;
      }
    }
    return {};
  }

 private:
  static constexpr Instruction kReduceLoss{.op = Op::ReduceLoss}, kClip{.op = Op::Clip};
  Steps& steps_;
};

}  // namespace convoy::parallel::rules
