#include "convoy/schedule/program.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace convoy::schedule {

namespace {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"weights", "masters", "gradients", "moments"};
  return kNames[static_cast<size_t>(kind)];
}

class Maker {
 public:
  Maker(const Layout& layout, const StepOptions& options)
      : layout_(layout),
        options_(options),
        each_(layout.in_slices(Kind::Gradients) && options.reduce_each),
        finished_(layout.table().units_finished_by_block()) {}

  void add(const Task& task) {
    const int64_t m = task.micro_batch;
    if (loaded_.insert(m).second) add({.op = Op::Load, .micro_batch = m});
    if (task.backward) {
      over(Op::ReceiveGrad, task.last_block, task.last_block + 1, m);
      for (int64_t b = task.last_block; b >= task.first_block; --b) backward(b, m);
      over(Op::SendGrad, task.first_block - 1, task.first_block - 1, m);
      return;
    }
    over(Op::Receive, task.first_block - 1, task.first_block - 1, m);
    for (int64_t b = task.first_block; b <= task.last_block; ++b) {
      add({.op = Op::Forward, .block = b, .micro_batch = m});
    }
    over(Op::Send, task.last_block, task.last_block + 1, m);
  }

  void add(const Instruction& i) { program_.push_back(i); }

  void loss(int64_t m) { add({.op = Op::Loss, .micro_batch = m}); }

  /// The end of a step.
  void end() {
    for (int64_t unit = 0; unit < layout_.table().num_units(); ++unit) {
      if (layout_.is_tied(unit) && !layout_.table().is_frozen(unit)) {
        add({.op = Op::ReduceTied, .unit = unit});
      }
    }
    add({Op::ReduceLoss});
    add({Op::Clip});
    // In the order in which the next forward reads them.
    for (int64_t bucket = layout_.num_trained_buckets() - 1; bucket >= 0; --bucket) {
      add({.op = Op::Update, .bucket = bucket});
      if (layout_.gathers_updates(bucket)) add({.op = Op::Gather, .bucket = bucket});
    }
  }

  Program take() { return std::move(program_); }

 private:
  /// What block `block` returned, or its gradient, crosses to or from whoever holds `other`.
  void over(Op op, int64_t block, int64_t other, int64_t m) {
    if (other < 0 || other == layout_.table().num_blocks() || layout_.holds(other)) return;
    add({.op = op, .block = block, .micro_batch = m, .peer = layout_.stage_of(other)});
  }

  void backward(int64_t block, int64_t m) {
    if (options_.recomputed.contains(block)) {
      add({.op = Op::Recompute, .block = block, .micro_batch = m});
    }
    add({.op = Op::Backward, .block = block, .micro_batch = m});
    for (const int64_t unit : finished_[static_cast<size_t>(block)]) finish(unit, m);
  }

  void finish(int64_t unit, int64_t m) {
    add({.op = Op::Accumulate, .unit = unit, .micro_batch = m});
    const int64_t bucket = layout_.bucket_of(unit);
    auto [waiting, fresh] = waiting_.try_emplace({bucket, m}, 0);
    if (fresh) waiting->second = layout_.buckets()[static_cast<size_t>(bucket)].units.size();
    const bool last = m + 1 == options_.num_micro_batches;
    if (--waiting->second > 0 || !(last || each_)) return;
    if (layout_.shares_out_updates()) {
      add({.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m});
    } else {
      add({.op = Op::Reduce, .bucket = bucket});
    }
  }

  const Layout& layout_;
  const StepOptions& options_;
  bool each_;
  std::vector<std::vector<int64_t>> finished_;
  std::set<int64_t> loaded_;
  // Units of a bucket whose gradient is not complete yet, by bucket and micro-batch.
  std::map<std::pair<int64_t, int64_t>, size_t> waiting_;
  Program program_;
};

}  // namespace

Program step_program(const Layout& layout, const StepOptions& options,
                     const std::vector<Task>& tasks) {
  Maker maker(layout, options);
  for (const auto& task : tasks) {
    maker.add(task);
    const bool last = task.last_block + 1 == layout.table().num_blocks();
    if (last && !task.backward) maker.loss(task.micro_batch);
  }
  maker.end();
  return maker.take();
}

Program data_parallel_program(const Layout& layout, const StepOptions& options) {
  std::vector<Task> tasks;
  for (int64_t m = 0; m < options.num_micro_batches; ++m) {
    for (const bool backward : {false, true}) {
      tasks.push_back({backward, 0, layout.table().num_blocks() - 1, m});
    }
  }
  return with_offload(with_gathers(step_program(layout, options, tasks), layout, options), layout);
}

Program forward_program(const Layout& layout, const StepOptions& options) {
  Maker maker(layout, options);
  for (const auto& [first, last] : layout.runs_of_blocks()) maker.add({false, first, last, 0});
  return with_offload(with_gathers(maker.take(), layout, options), layout);
}

bool sends(Op op) {
  return op == Op::Send || op == Op::SendGrad;
}

bool receives(Op op) {
  return op == Op::Receive || op == Op::ReceiveGrad;
}

std::string to_text(const Instruction& i) {
  switch (i.op) {
    case Op::Load:
      return fmt::format("load, micro-batch {}", i.micro_batch);
    case Op::Gather:
      return fmt::format("gather bucket {}", i.bucket);
    case Op::Release:
      return fmt::format("release bucket {}", i.bucket);
    case Op::Fetch:
      return fmt::format("fetch {} of bucket {}", name_of(i.kind), i.bucket);
    case Op::Store:
      return fmt::format("store {} of bucket {}", name_of(i.kind), i.bucket);
    case Op::Forward:
      return fmt::format("forward block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Loss:
      return fmt::format("loss, micro-batch {}", i.micro_batch);
    case Op::Recompute:
      return fmt::format("recompute block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Backward:
      return fmt::format("backward block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::Send:
      return fmt::format("send block {}, micro-batch {}, to rank {}", i.block, i.micro_batch,
                         i.peer);
    case Op::Receive:
      return fmt::format("receive block {}, micro-batch {}, from rank {}", i.block, i.micro_batch,
                         i.peer);
    case Op::SendGrad:
      return fmt::format("send gradient of block {}, micro-batch {}, to rank {}", i.block,
                         i.micro_batch, i.peer);
    case Op::ReceiveGrad:
      return fmt::format("receive gradient of block {}, micro-batch {}, from rank {}", i.block,
                         i.micro_batch, i.peer);
    case Op::Accumulate:
      return fmt::format("accumulate unit {}, micro-batch {}", i.unit, i.micro_batch);
    case Op::Reduce:
      return fmt::format("reduce bucket {}", i.bucket);
    case Op::ReduceScatter:
      return fmt::format("reduce-scatter bucket {}, micro-batch {}", i.bucket, i.micro_batch);
    case Op::ReduceTied:
      return fmt::format("reduce tied unit {}", i.unit);
    case Op::ReduceLoss:
      return "reduce loss";
    case Op::Clip:
      return "clip";
    case Op::Update:
      return fmt::format("update bucket {}", i.bucket);
  }
  return "?";
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& instruction : program) out += to_text(instruction) + "\n";
  return out;
}

}  // namespace convoy::schedule
