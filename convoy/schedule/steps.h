#pragma once

#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/schedule/check.h"

namespace convoy::schedule {

/// Who holds which block.
class Holders {
 public:
  explicit Holders(const std::vector<RankProgram>& ranks) : ranks_(ranks) {}
  /// [block] the place in the rank's pipeline of who holds it. Throws InternalError where nobody
  /// does, or two do.
  const std::vector<int>& of(const RankProgram& rank);

 private:
  const std::vector<RankProgram>& ranks_;
  std::map<std::vector<int>, std::vector<int>> known_;  // [pipeline]
};

/// What a rank has done so far, and which rank of its pipeline holds which block.
class Steps {
 public:
  Steps(int rank, const Layout& layout, const std::vector<int>& holders)
      : layout_(layout), rank_(rank), holders_(holders) {}

  const Layout& layout() const { return layout_; }
  int64_t num_blocks() const { return static_cast<int64_t>(holders_.size()); }
  /// The rank's place in its pipeline of the block's holder.
  int holder(int64_t block) const { return holders_[static_cast<size_t>(block)]; }

  bool did(const Instruction& i) const { return done_.contains(key(i)); }
  void require(bool condition, const Instruction& i, const char* what) const {
    internal_check(condition, "schedule", "rank {}: '{}' {}", rank_, to_text(i), what);
  }
  void require_before(bool condition, const Instruction& i, const Instruction& before) const {
    internal_check(condition, "schedule", "rank {}: '{}' comes without '{}' before it", rank_,
                   to_text(i), to_text(before));
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
  std::set<Key> done_;
};

}  // namespace convoy::schedule
