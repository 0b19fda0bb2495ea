#include "convoy/schedule/check.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/schedule/steps.h"

namespace convoy::schedule {

namespace {

/// The blocks' forwards and backwards in their order.
class Blocks {
 public:
  Blocks(Steps& steps, const StepOptions& options)
      : steps_(steps), options_(options), rows_(steps.layout().runs_of_blocks()) {}

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
        steps_.require(!steps_.did({.op = Op::Backward, .block = b, .micro_batch = m}), i,
                       "comes after its backward");
        break;
      case Op::Backward:
        steps_.need(i, {.op = Op::Forward, .block = b, .micro_batch = m});
        steps_.need(i, gradient_after(b, m));
        if (options_.recomputed.contains(b)) {
          steps_.need(i, {.op = Op::Recompute, .block = b, .micro_batch = m});
        }
        break;
      case Op::Send:
        steps_.need(i, {.op = Op::Forward, .block = b, .micro_batch = m});
        break;
      case Op::SendGrad:
        steps_.need(i, {.op = Op::Backward, .block = b + 1, .micro_batch = m});
        break;
      case Op::ReceiveGrad:
        steps_.need(i, sending(Op::Send, b, m, b + 1));
        break;
      case Op::ReduceLoss:
        for (int64_t each = 0; each < options_.num_micro_batches; ++each) expect_all(i, each);
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
  /// Where the gradient of what a block returned comes from.
  Instruction gradient_after(int64_t block, int64_t m) const {
    if (block + 1 == steps_.num_blocks()) return {.op = Op::Loss, .micro_batch = m};
    if (holds(block + 1)) return {.op = Op::Backward, .block = block + 1, .micro_batch = m};
    return sending(Op::ReceiveGrad, block, m, block + 1);
  }
  void expect_all(const Instruction& i, int64_t m) const {
    for (const auto& [first, last] : rows_) {
      for (int64_t block = first; block <= last; ++block) {
        steps_.need(i, {.op = Op::Backward, .block = block, .micro_batch = m});
      }
      if (first > 0) steps_.need(i, sending(Op::SendGrad, first - 1, m, first - 1));
    }
  }

  Steps& steps_;
  const StepOptions& options_;
  BlockRows rows_;
};

/// Weights that are gathered when they are read.
class WeightsInSlices {
 public:
  explicit WeightsInSlices(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Gather && in_slices(i.bucket)) {
      require_release(i, i.bucket);
      steps_.do_once(i);
    } else if (i.op == Op::Release) {
      steps_.require(in_slices(i.bucket), i, "releases what is kept whole");
      steps_.need(i, gather_of(i.bucket));
      steps_.undo(gather_of(i.bucket));
    }
    for (const int64_t bucket : reads(i, layout)) {
      if (in_slices(bucket)) steps_.need(i, gather_of(bucket));
    }
    if (i.op != Op::ReduceLoss) return;
    for (int64_t bucket = 0; bucket < layout.num_buckets(); ++bucket) require_release(i, bucket);
  }

 private:
  static Instruction gather_of(int64_t bucket) { return {.op = Op::Gather, .bucket = bucket}; }
  bool in_slices(int64_t bucket) const { return steps_.layout().in_slices(Kind::Weights, bucket); }
  void require_release(const Instruction& i, int64_t bucket) const {
    steps_.require_before(!steps_.did(gather_of(bucket)), i, {.op = Op::Release, .bucket = bucket});
  }

  Steps& steps_;
};

class Gradients {
 public:
  Gradients(Steps& steps, const StepOptions& options)
      : steps_(steps),
        num_micro_batches_(options.num_micro_batches),
        each_(steps.layout().in_slices(Kind::Gradients) && options.reduce_each) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Accumulate) {
      steps_.need(i, {.op = Op::Backward,
                      .block = layout.table().last_reader_in_backward(i.unit),
                      .micro_batch = i.micro_batch});
      // The bits of a sum depend on its order.
      if (i.micro_batch > 0) steps_.need(i, accumulation(i.unit, i.micro_batch - 1));
      if (i.micro_batch > 0 && each_) {
        steps_.need(i, reduction(layout.bucket_of(i.unit), i.micro_batch - 1));
      }
      steps_.do_once(i);
    } else if (i.op == Op::Reduce || i.op == Op::ReduceScatter) {
      steps_.require((i.op == Op::ReduceScatter) == layout.shares_out_updates(), i,
                     "is not what the layout asks for");
      const int64_t last = each_ ? i.micro_batch : num_micro_batches_ - 1;
      for (const int64_t unit : layout.buckets()[static_cast<size_t>(i.bucket)].units) {
        steps_.need(i, accumulation(unit, last));
      }
      // Later micro-batches would add to what is reduced already.
      steps_.do_once(reduction(i.bucket, last));
    } else if (i.op == Op::ReduceTied) {
      require_reduced(i, layout.bucket_of(i.unit));
      steps_.do_once(i);
    } else if (i.op == Op::ReduceLoss) {
      for (int64_t unit = 0; unit < layout.table().num_units(); ++unit) {
        if (!layout.is_tied(unit) || layout.table().is_frozen(unit)) continue;
        steps_.need(i, {.op = Op::ReduceTied, .unit = unit});
      }
      for (int64_t bucket = 0; bucket < layout.num_trained_buckets(); ++bucket) {
        require_reduced(i, bucket);
      }
    }
  }

 private:
  void require_reduced(const Instruction& i, int64_t bucket) const {
    for (int64_t m = each_ ? 0 : num_micro_batches_ - 1; m < num_micro_batches_; ++m) {
      steps_.need(i, reduction(bucket, m));
    }
  }
  static Instruction accumulation(int64_t unit, int64_t m) {
    return {.op = Op::Accumulate, .unit = unit, .micro_batch = m};
  }
  Instruction reduction(int64_t bucket, int64_t m) const {
    if (!steps_.layout().shares_out_updates()) return {.op = Op::Reduce, .bucket = bucket};
    return {.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m};
  }

  Steps& steps_;
  int64_t num_micro_batches_;
  bool each_;
};

/// State that is in memory only between its fetch and its store.
class Offloaded {
 public:
  explicit Offloaded(Steps& steps) : steps_(steps), update_(offloaded_in_update(steps.layout())) {}

  void see(const Instruction& i) {
    const auto& layout = steps_.layout();
    if (i.op == Op::Fetch) {
      steps_.require(layout.offloaded(i.kind), i, "fetches what is in memory");
      steps_.require(here_.emplace(Place{i.kind, i.bucket}, false).second, i, "comes twice");
    } else if (i.op == Op::Store) {
      const auto found = here_.find({i.kind, i.bucket});
      steps_.require(found != here_.end() && found->second, i, "has nothing new to store");
      here_.erase(found);
    } else if (i.op == Op::Gather && layout.offloaded(Kind::Weights)) {
      need(i, Kind::Weights);
      here_.erase({Kind::Weights, i.bucket});
    } else if (i.op == Op::ReduceScatter && layout.offloaded(Kind::Gradients)) {
      const Place place{Kind::Gradients, i.bucket};
      if (summed_.insert(i.bucket).second) {
        steps_.require(!here_.contains(place), i, "loses what was fetched");
      } else {
        need(i, Kind::Gradients);
      }
      here_[place] = true;
    } else if (i.op == Op::Update) {
      for (const Kind kind : update_) {
        need(i, kind);
        here_[{kind, i.bucket}] = true;
        if (kind == Kind::Gradients) here_.erase({kind, i.bucket});
      }
    }
  }

  /// What the end of the program lacks, if anything.
  std::optional<Instruction> missing() const {
    if (here_.empty()) return {};
    const auto& [kind, bucket] = here_.begin()->first;
    return Instruction{.op = Op::Store, .bucket = bucket, .kind = kind};
  }

 private:
  using Place = std::pair<Kind, int64_t>;  // kind, bucket
  void need(const Instruction& i, Kind kind) const {
    steps_.require_before(here_.contains({kind, i.bucket}), i,
                          {.op = Op::Fetch, .bucket = i.bucket, .kind = kind});
  }

  Steps& steps_;
  std::vector<Kind> update_;
  std::map<Place, bool> here_;  // whether it has changed
  std::set<int64_t> summed_;
};

/// The end of a step.
class Updates {
 public:
  explicit Updates(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) {
    const bool gathers = i.op == Op::Gather && steps_.layout().gathers_updates(i.bucket);
    const bool ends = i.op == Op::Update || i.op == Op::Fetch || i.op == Op::Store || gathers;
    steps_.require(!steps_.did(kClip) || ends, i, "comes after clip, or twice");
    if (i.op == Op::Clip) steps_.need(i, kReduceLoss);
    if (i.op == Op::Update) steps_.need(i, kClip);
    if (gathers) steps_.need(i, {.op = Op::Update, .bucket = i.bucket});
    if (i.op == Op::ReduceLoss || i.op == Op::Clip || i.op == Op::Update || gathers) {
      steps_.do_once(i);
    }
  }

  /// What the end of the program lacks, if anything.
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

/// A program that computes one micro-batch forward.
class ForwardOnly {
 public:
  explicit ForwardOnly(Steps& steps) : steps_(steps) {}

  void see(const Instruction& i) const {
    const bool weights = i.op == Op::Gather || i.op == Op::Release || i.op == Op::Fetch;
    const bool in_slices =
        weights && i.kind == Kind::Weights && steps_.layout().in_slices(i.kind, i.bucket);
    const bool computes = i.op == Op::Load || i.op == Op::Forward;
    steps_.require(computes || i.op == Op::Send || i.op == Op::Receive || in_slices, i,
                   "is no part of a forward program");
  }

  /// What the end of the program lacks, if anything.
  std::optional<Instruction> missing() const {
    for (int64_t block = 0; block < steps_.num_blocks(); ++block) {
      const Instruction i{.op = Op::Forward, .block = block, .micro_batch = 0};
      if (steps_.layout().holds(block) && !steps_.did(i)) return i;
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

/// Shows every instruction to all rules.
template <class... Rules>
void play(const Program& program, int64_t num_micro_batches, const Steps& steps, Rules&... rules) {
  for (const auto& i : program) {
    steps.check_operands(i, num_micro_batches);
    (rules.see(i), ...);
  }
}

void require_complete(size_t rank, const std::optional<Instruction>& missing) {
  internal_check(!missing, "schedule", "rank {} ends without '{}'", rank,
                 missing ? to_text(*missing) : "");
}

Alive most_alive(const RankProgram& rank, const StepOptions& options) {
  int64_t blocks = 0, inputs = 0;
  Alive most;
  most.weights = most_gathered(rank.program, rank.layout);
  for (const auto& i : rank.program) {
    const bool again = options.recomputed.contains(i.block);
    if (i.op == Op::Forward) ++(again ? inputs : blocks);
    if (i.op == Op::Recompute) ++blocks;
    most.blocks = std::max(most.blocks, blocks);
    most.inputs = std::max(most.inputs, inputs);
    if (i.op == Op::Backward) {
      --blocks;
      inputs -= again;
    }
  }
  return most;
}

}  // namespace

std::vector<Alive> check(const std::vector<RankProgram>& ranks, const StepOptions& options) {
  std::vector<Alive> alive;
  Holders holders(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto number = static_cast<int>(r);
    Steps steps(number, ranks[r].layout, holders.of(ranks[r]));
    Blocks blocks(steps, options);
    WeightsInSlices weights(steps);
    Gradients gradients(steps, options);
    Offloaded offloaded(steps);
    Updates updates(steps);
    play(ranks[r].program, options.num_micro_batches, steps, updates, blocks, weights, gradients,
         offloaded);
    require_complete(r, updates.missing());
    require_complete(r, offloaded.missing());
    alive.push_back(most_alive(ranks[r], options));
  }
  check_meetings(ranks);
  return alive;
}

Alive check(const Program& program, const Layout& layout, const StepOptions& options) {
  return check({{program, layout}}, options).front();
}

void check_forward(const std::vector<RankProgram>& ranks) {
  const StepOptions options;
  Holders holders(ranks);
  for (size_t r = 0; r < ranks.size(); ++r) {
    Steps steps(static_cast<int>(r), ranks[r].layout, holders.of(ranks[r]));
    ForwardOnly forward(steps);
    Blocks blocks(steps, options);
    WeightsInSlices weights(steps);
    Offloaded offloaded(steps);
    play(ranks[r].program, options.num_micro_batches, steps, forward, blocks, weights, offloaded);
    require_complete(r, forward.missing());
  }
  check_meetings(ranks);
}

}  // namespace convoy::schedule
