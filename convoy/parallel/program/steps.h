#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/parallel/program/check.h"

namespace convoy::parallel {

/// Holders of blocks.
class Holders {
 public:
  explicit Holders(const std::vector<RankProgram>& ranks) : ranks_(ranks) {}
  /// [block] Holder's place in the rank's pipeline. Throws InternalError where no rank holds a
  /// block, or two do.
  const std::vector<int>& of(const RankProgram& rank);

 private:
  const std::vector<RankProgram>& ranks_;
  std::map<std::vector<int>, std::vector<int>> known_;  // [pipeline]
};

/// Instructions that a rank has run so far, and the holder of each block in its pipeline.
class Steps {
 public:
  Steps(int rank, const RankProgram& of, const std::vector<int>& holders);

  const Layout& layout() const { return layout_; }
  int64_t num_blocks() const { return static_cast<int64_t>(holders_.size()); }
  /// Returns the place in its pipeline of the rank that holds a block.
  int holder(int64_t block) const { return holders_[static_cast<size_t>(block)]; }

  /// Whether a block's backward of a micro-batch comes in halves in this program.
  bool is_in_halves(int64_t block, int64_t micro_batch) const {
    return in_halves_.contains({block, micro_batch});
  }
  /// Instruction that gives the gradient of a block's inputs, or of its weights: a half, or all of
  /// a backward.
  Instruction input_half(int64_t block, int64_t micro_batch) const {
    const auto op = is_in_halves(block, micro_batch) ? Op::BackwardInput : Op::Backward;
    return {.op = op, .block = block, .micro_batch = micro_batch};
  }
  Instruction weight_half(int64_t block, int64_t micro_batch) const {
    const auto op = is_in_halves(block, micro_batch) ? Op::BackwardWeight : Op::Backward;
    return {.op = op, .block = block, .micro_batch = micro_batch};
  }

  bool did(const Instruction& i) const { return done_.contains(key(i)); }
  void require(bool condition, const Instruction& i, const char* what) const {
    if (condition) return;  // the text takes longer than the proof
    fail<InternalError>("parallel", "rank {}: '{}' {}", rank_, to_text(i), what);
  }
  void require_before(bool condition, const Instruction& i, const Instruction& before) const {
    if (condition) return;
    fail<InternalError>("parallel", "rank {}: '{}' comes without '{}' before it", rank_, to_text(i),
                        to_text(before));
  }
  void need(const Instruction& i, const Instruction& before) const {
    require_before(did(before), i, before);
  }
  void do_once(const Instruction& i) { require(done_.insert(key(i)).second, i, "comes twice"); }
  void undo(const Instruction& i) { done_.erase(key(i)); }

  /// Refuses operands that mean nothing.
  void check_operands(const Instruction& i, int64_t num_micro_batches) const;

 private:
  using Key = std::tuple<Op, int64_t, int64_t, int64_t, int64_t>;
  static Key key(const Instruction& i) { return {i.op, i.block, i.unit, i.bucket, i.micro_batch}; }

  const Layout& layout_;
  int rank_;
  const std::vector<int>& holders_;
  std::set<std::pair<int64_t, int64_t>> in_halves_;  // block, micro-batch
  std::set<Key> done_;
};

}  // namespace convoy::parallel
