#include "convoy/schedule/run/memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace convoy::schedule {

namespace {

/// Gradients that are whole for a while, in elements, as parallel::Gradients has them.
class GradientPool {
 public:
  GradientPool(const Layout& layout, const StepOptions& options)
      : layout_(layout),
        sharded_(layout.is_sharded(Kind::Gradients)),
        each_(sharded_ && options.reduce_each) {}

  void see(const Instruction& i) {
    const bool loss = i.op == Op::Forward && i.block + 1 == layout_.table().num_blocks();
    const bool half = i.op == Op::BackwardInput || i.op == Op::BackwardWeight;
    if (i.op == Op::Backward || half || loss) {
      for (const int64_t unit : layout_.table().units_of_block[static_cast<size_t>(i.block)]) {
        if (!layout_.table().is_frozen(unit)) begin(unit, i.micro_batch);
      }
    } else if (i.op == Op::Accumulate) {
      begun_.erase({i.unit, i.micro_batch});
      if (scratch_.erase({i.unit, i.micro_batch}) == 0) return;
      fill(layout_.bucket_of(i.unit), i.micro_batch);
      scratches_.change(-length(i.unit));
    } else if (i.op == Op::ReduceScatter && sharded_) {
      filling_.erase(i.bucket);
      in_flight_.push_back(i.bucket);
      if (in_flight_.size() > kBucketsInFlight) {
        buckets_.change(-bucket_length(in_flight_.front()));
        in_flight_.pop_front();
      }
    }
  }

  int64_t most() const { return buckets_.most + scratches_.most; }

 private:
  /// Elements that are taken, and the most so far: what is given back is kept for the next.
  struct Pool {
    int64_t now = 0, most = 0;
    void change(int64_t by) { most = std::max(most, now += by); }
  };

  int64_t length(int64_t unit) const {
    return layout_.units()[static_cast<size_t>(unit)].all.length();
  }
  int64_t bucket_length(int64_t bucket) const {
    return layout_.buckets()[static_cast<size_t>(bucket)].all.length();
  }

  void begin(int64_t unit, int64_t m) {
    if (!begun_.insert({unit, m}).second) return;
    const int64_t bucket = layout_.bucket_of(unit);
    const auto filling = filling_.find(bucket);
    const bool in_place = each_ ? filling == filling_.end() || filling->second == m : m == 0;
    if (!in_place) {
      scratch_.insert({unit, m});
      scratches_.change(length(unit));
    } else {
      fill(bucket, m);
    }
  }

  void fill(int64_t bucket, int64_t m) {
    const bool fresh = filling_.emplace(bucket, m).second;
    if (fresh && sharded_) buckets_.change(bucket_length(bucket));
  }

  const Layout& layout_;
  bool sharded_, each_;
  std::map<int64_t, int64_t> filling_;  // [bucket] micro-batch
  std::set<std::pair<int64_t, int64_t>> begun_, scratch_;
  std::deque<int64_t> in_flight_;
  Pool buckets_, scratches_;
};

/// What lies between the blocks of a rank and in messages, in bytes, as parallel::Pass and
/// Transfers have it.
class Activations {
 public:
  Activations(const Layout& layout, const StepOptions& options, const std::vector<BlockCost>& costs)
      : layout_(layout),
        options_(options),
        costs_(costs),
        most_under_way_(1 + layout.virtual_stages().size()) {}

  void see(const Instruction& i) {
    if (i.block < 0) return;
    const auto& cost = costs_[static_cast<size_t>(i.block)];
    const bool again = options_.recomputed.contains(i.block);
    switch (i.op) {
      case Op::Forward:
        reach(cost.forward_bytes);
        now_ += again ? cost.returned_bytes : cost.kept_bytes;
        break;
      case Op::Recompute:
        reach(cost.forward_bytes);
        now_ += cost.kept_bytes;
        break;
      case Op::Backward:
      case Op::BackwardInput:
        // What it returned before, unless that was sent; the next block had it until now.
        if (again && layout_.holds(i.block + 1)) now_ -= cost.returned_bytes;
        if (i.block + 1 < layout_.table().num_blocks()) now_ -= cost.grad_bytes;
        reach(i.op == Op::Backward ? cost.backward_bytes : cost.half_bytes);
        now_ -= cost.kept_bytes;
        if (i.op == Op::BackwardInput) now_ += cost.put_off_bytes;
        if (i.block > 0) now_ += costs_[static_cast<size_t>(i.block) - 1].grad_bytes;
        break;
      case Op::BackwardWeight:
        reach(0);
        now_ -= cost.put_off_bytes;
        break;
      case Op::Send:
        if (cost.sent_parts > 1) {  // as one
          now_ += cost.sent_bytes;
          reach(0);
          now_ -= again ? cost.returned_bytes : 0;
          leave(cost.sent_bytes);
        } else {
          leave(again ? cost.returned_bytes : 0);
        }
        break;
      case Op::Receive:
        now_ += cost.sent_bytes;
        break;
      case Op::SendGrad:
        now_ -= cost.sent_bytes;
        reach(cost.grad_parts > 1 ? cost.grad_bytes : 0);
        leave(cost.grad_bytes);
        break;
      case Op::ReceiveGrad:
        now_ += cost.grad_bytes;
        break;
      default:
        break;
    }
    reach(0);
  }

  int64_t most() const { return most_; }

 private:
  void reach(int64_t more) { most_ = std::max(most_, now_ + more); }

  /// What was sent is there until its receiver tells that it came: beside it the next of each
  /// virtual stage is under way.
  void leave(int64_t bytes) {
    under_way_.push_back(bytes);
    if (under_way_.size() <= most_under_way_) return;
    now_ -= under_way_.front();
    under_way_.pop_front();
  }

  const Layout& layout_;
  const StepOptions& options_;
  const std::vector<BlockCost>& costs_;
  size_t most_under_way_;
  int64_t now_ = 0, most_ = 0;
  std::deque<int64_t> under_way_;
};

/// What is offloaded comes and goes through memory for three buckets: one that is brought, one that
/// is there, one that is written.
void keep(const Layout& layout, Kind kind, int64_t width, int64_t& place, MemoryUse& use) {
  constexpr int64_t kBuckets = 3;
  if (!layout.offloaded(kind)) {
    place += layout.kept(kind) * width;
    return;
  }
  use.offloaded += layout.kept(kind) * width;
  int64_t most = 0;
  for (int64_t b = 0; b < layout.num_buckets(kind); ++b) {
    most = std::max(most, layout.kept(kind, b, 0).length());
  }
  use.buffers += std::min(kBuckets, layout.num_buckets(kind)) * most * width;
}

}  // namespace

MemoryUse memory_of(const Layout& layout, const Program& program, const StepOptions& options,
                    int64_t most_gathered, const std::vector<BlockCost>& costs,
                    int64_t state_bytes) {
  const bool low = layout.options().low_precision;
  const int64_t width = low ? 2 : 4;
  MemoryUse out;
  keep(layout, Kind::Masters, 4, out.parameters, out);
  if (low) keep(layout, Kind::Weights, width, out.parameters, out);
  keep(layout, Kind::Gradients, 4, out.gradients, out);
  keep(layout, Kind::Moments, state_bytes, out.optimizer, out);
  GradientPool pool(layout, options);
  for (const auto& i : program) pool.see(i);
  out.gathered = most_gathered * width;
  (layout.is_sharded(Kind::Gradients) ? out.gathered : out.buffers) += pool.most() * 4;
  if (costs.empty()) return out;
  Activations activations(layout, options, costs);
  for (const auto& i : program) activations.see(i);
  out.activations = activations.most();
  return out;
}

}  // namespace convoy::schedule
