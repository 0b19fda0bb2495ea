#include "convoy/plan/memory.h"

#include <algorithm>
#include <deque>
#include <map>
#include <set>

#include "convoy/optim/adamw.h"

namespace convoy::plan {

namespace {

using schedule::Instruction;
using schedule::Kind;
using schedule::Op;

/// Gradients that are whole for a while, in elements, as parallel::Gradients has them.
class GradientPool {
 public:
  GradientPool(const schedule::Layout& layout, const schedule::StepOptions& options)
      : layout_(layout),
        sliced_(layout.in_slices(Kind::Gradients)),
        each_(sliced_ && options.reduce_each) {}

  void see(const Instruction& i) {
    const bool loss = i.op == Op::Forward && i.block + 1 == layout_.table().num_blocks();
    if (i.op == Op::Backward || loss) {
      for (const int64_t unit : layout_.table().units_of_block[static_cast<size_t>(i.block)]) {
        if (!layout_.table().is_frozen(unit)) begin(unit, i.micro_batch);
      }
    } else if (i.op == Op::Accumulate) {
      begun_.erase({i.unit, i.micro_batch});
      if (scratch_.erase({i.unit, i.micro_batch}) == 0) return;
      fill(layout_.bucket_of(i.unit), i.micro_batch);
      scratches_.change(-length(i.unit));
    } else if (i.op == Op::ReduceScatter && sliced_) {
      filling_.erase(i.bucket);
      flights_.push_back(i.bucket);
      if (flights_.size() > parallel::Gradients::kFlights) {
        buckets_.change(-bucket_length(flights_.front()));
        flights_.pop_front();
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
    if (fresh && sliced_) buckets_.change(bucket_length(bucket));
  }

  const schedule::Layout& layout_;
  bool sliced_, each_;
  std::map<int64_t, int64_t> filling_;  // [bucket] micro-batch
  std::set<std::pair<int64_t, int64_t>> begun_, scratch_;
  std::deque<int64_t> flights_;
  Pool buckets_, scratches_;
};

int64_t most_activations(const schedule::Program& program, const schedule::StepOptions& options,
                         const std::vector<BlockCost>& costs) {
  int64_t now = 0, most = 0;
  for (const auto& i : program) {
    if (i.op != Op::Forward && i.op != Op::Recompute && i.op != Op::Backward) continue;
    const auto& cost = costs[static_cast<size_t>(i.block)];
    const bool again = options.recomputed.contains(i.block);
    if (i.op == Op::Forward) {
      most = std::max(most, now + cost.forward_bytes);
      now += again ? cost.returned_bytes : cost.kept_bytes;
    } else if (i.op == Op::Recompute) {
      now -= cost.returned_bytes;
      most = std::max(most, now + cost.forward_bytes);
      now += cost.kept_bytes;
    } else {
      most = std::max(most, now + cost.backward_bytes);
      now -= cost.kept_bytes;
    }
  }
  return most;
}

}  // namespace

parallel::MemoryUse estimate(const schedule::Layout& layout, const schedule::Program& program,
                             const schedule::StepOptions& options, int64_t most_gathered,
                             const std::vector<BlockCost>& costs) {
  const bool low = layout.options().low_precision;
  const int64_t width = low ? 2 : 4;
  parallel::MemoryUse out;
  out.parameters = layout.kept(Kind::Masters) * 4 + (low ? layout.kept(Kind::Weights) * width : 0);
  out.gradients = layout.kept(Kind::Gradients) * 4;
  out.optimizer = layout.kept(Kind::Moments) * 4 * static_cast<int64_t>(optim::kMoments.size());
  GradientPool pool(layout, options);
  for (const auto& i : program) pool.see(i);
  out.gathered = most_gathered * width;
  (layout.in_slices(Kind::Gradients) ? out.gathered : out.buffers) += pool.most() * 4;
  out.activations = most_activations(program, options, costs);
  return out;
}

}  // namespace convoy::plan
