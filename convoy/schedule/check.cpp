#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/schedule/program.h"

namespace convoy::schedule {

namespace {

void require(bool condition, const Instruction& i, const char* what) {
  internal_check(condition, "schedule", "'{}' {}", to_text(i), what);
}

/// The blocks' forwards and backwards in their order.
class Blocks {
 public:
  explicit Blocks(int64_t num_blocks) : num_blocks_(num_blocks) {}

  void see(const Instruction& i) {
    const int64_t m = i.micro_batch;
    const Cell cell{i.block, m};
    switch (i.op) {
      case Op::Load:
        require(loaded_.insert(m).second, i, "comes twice");
        break;
      case Op::Forward:
        require(loaded_.contains(m), i, "comes before its load");
        require(i.block == 0 || forward_.contains({i.block - 1, m}), i, "has no input yet");
        require(forward_.insert(cell).second, i, "comes twice");
        break;
      case Op::Loss:
        require(forward_.contains({num_blocks_ - 1, m}), i, "comes before the last block");
        require(losses_.insert(m).second, i, "comes twice");
        break;
      case Op::Recompute:
        require(i.block + 1 < num_blocks_ && backward_.contains({i.block + 1, m}), i,
                "comes before the backward of the block after it");
        require(!backward_.contains(cell), i, "comes after its backward");
        require(recomputed_.insert(cell).second, i, "comes twice");
        break;
      case Op::Backward:
        require(losses_.contains(m), i, "comes before the loss");
        require(i.block + 1 == num_blocks_ || backward_.contains({i.block + 1, m}), i,
                "has no gradient yet");
        require(backward_.insert(cell).second, i, "comes twice");
        break;
      default:
        break;
    }
  }

  bool is_backward_done(int64_t block, int64_t m) const { return backward_.contains({block, m}); }
  int64_t num_losses() const { return static_cast<int64_t>(losses_.size()); }

 private:
  using Cell = std::pair<int64_t, int64_t>;  // (block, micro-batch)
  int64_t num_blocks_;
  std::set<Cell> forward_, recomputed_, backward_;
  std::set<int64_t> loaded_, losses_;
};

/// Weights that are gathered when they are read.
class WeightsInSlices {
 public:
  explicit WeightsInSlices(const Layout& layout) : layout_(layout) {}

  void see(const Instruction& i) {
    if (!layout_.in_slices(Kind::Weights)) {
      require(i.op != Op::Release, i, "releases what is kept whole");
      return;
    }
    if (i.op == Op::Gather) require(there_.insert(i.bucket).second, i, "comes twice");
    if (i.op == Op::Release) require(there_.erase(i.bucket) == 1, i, "has nothing to release");
    for (const int64_t bucket : reads(i, layout_)) {
      require(there_.contains(bucket), i, "reads weights that are not gathered");
    }
    if (i.op == Op::ReduceLoss) require(there_.empty(), i, "comes while weights are gathered");
  }

 private:
  const Layout& layout_;
  std::set<int64_t> there_;
};

class Gradients {
 public:
  Gradients(const Layout& layout, const StepOptions& options)
      : layout_(layout),
        options_(options),
        each_(layout.in_slices(Kind::Gradients) && options.reduce_each) {}

  void see(const Instruction& i, const Blocks& blocks) {
    const int64_t m = i.micro_batch;
    if (i.op == Op::Accumulate) {
      require(blocks.is_backward_done(layout_.table().last_reader_in_backward(i.unit), m), i,
              "comes before its last reader's backward");
      require(accumulated_.insert({i.unit, m}).second, i, "comes twice");
    } else if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
      require((i.op == Op::ReduceScatter) == layout_.shares_out_updates(), i,
              "is not what the layout asks for");
      for (const int64_t unit : layout_.buckets().at(static_cast<size_t>(i.bucket)).units) {
        for (int64_t each = each_ ? m : 0; each < (each_ ? m + 1 : options_.num_micro_batches);
             ++each) {
          require(accumulated_.contains({unit, each}), i, "comes before its gradient is whole");
        }
      }
      require(reduced_.insert({i.bucket, each_ ? m : 0}).second, i, "comes twice");
    }
  }

  bool all_reduced() const {
    return static_cast<int64_t>(reduced_.size()) ==
           layout_.num_buckets() * (each_ ? options_.num_micro_batches : 1);
  }

 private:
  const Layout& layout_;
  const StepOptions& options_;
  bool each_;
  std::set<std::pair<int64_t, int64_t>> accumulated_, reduced_;
};

/// The end of a step.
class Updates {
 public:
  explicit Updates(const Layout& layout)
      : layout_(layout),
        gathers_(layout.shares_out_updates() && !layout.in_slices(Kind::Weights)) {}

  void see(const Instruction& i, const Blocks& blocks, const Gradients& gradients,
           int64_t num_micro_batches) {
    require(!clipped_ || i.op == Op::Update || (gathers_ && i.op == Op::Gather), i,
            "comes after clip");
    if (i.op == Op::ReduceLoss) {
      require(blocks.num_losses() == num_micro_batches && gradients.all_reduced(), i,
              "comes too early");
      require(!std::exchange(summed_, true), i, "comes twice");
    } else if (i.op == Op::Clip) {
      require(summed_, i, "comes before the loss is reduced");
      require(!std::exchange(clipped_, true), i, "comes twice");
    } else if (i.op == Op::Update) {
      require(clipped_, i, "comes before clip");
      require(updated_.insert(i.bucket).second, i, "comes twice");
    } else if (i.op == Op::Gather && gathers_) {
      require(updated_.contains(i.bucket), i, "comes before its update");
      require(gathered_.insert(i.bucket).second, i, "comes twice");
    }
  }

  void finish() const {
    const auto all = static_cast<size_t>(layout_.num_buckets());
    internal_check(clipped_ && updated_.size() == all, "schedule",
                   "a program that updates {} of {} buckets", updated_.size(), all);
    internal_check(!gathers_ || gathered_.size() == all, "schedule",
                   "a program that gathers {} of {} updated buckets", gathered_.size(), all);
  }

 private:
  const Layout& layout_;
  bool gathers_;
  bool summed_ = false, clipped_ = false;
  std::set<int64_t> updated_, gathered_;
};

}  // namespace

void check(const Program& program, const Layout& layout, const StepOptions& options) {
  Blocks blocks(layout.table().num_blocks());
  WeightsInSlices weights(layout);
  Gradients gradients(layout, options);
  Updates updates(layout);
  for (const auto& i : program) {
    blocks.see(i);
    weights.see(i);
    gradients.see(i, blocks);
    updates.see(i, blocks, gradients, options.num_micro_batches);
  }
  updates.finish();
}

}  // namespace convoy::schedule
