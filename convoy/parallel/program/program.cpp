#include "convoy/parallel/program/program.h"

#include <algorithm>
#include <utility>

#include "convoy/parallel/program/reduces_each.h"

namespace convoy::parallel {

namespace {

class Maker {
 public:
  Maker(const Layout& layout, const StepOptions& options, Incoming incoming = {})
      : layout_(layout),
        options_(options),
        incoming_(std::move(incoming)),
        each_(reduces_each(layout, options.parallelism)),
        finished_(layout.table().units_finished_by_block()),
        loaded_(static_cast<size_t>(options.parallelism.micro_batches)),
        received_(2 * static_cast<size_t>(layout.table().num_blocks() *
                                          options.parallelism.micro_batches)),
        waiting_(static_cast<size_t>(layout.num_buckets() * options.parallelism.micro_batches),
                 -1) {}

  /// Reserves memory for the instructions of a usual step.
  void reserve(const std::vector<BlockAction>& actions) {
    constexpr size_t kOfBlock = 2, kOfAction = 4;
    size_t number = 0;
    for (const auto& action : actions) {
      number += kOfAction + kOfBlock * static_cast<size_t>(action.last_block - action.first_block);
    }
    program_.reserve(number);
  }

  void add(const BlockAction& action) {
    const auto& [kind, first, last, m] = action;
    load(m);
    switch (kind) {
      case ActionKind::Forward:
        receive(Op::Receive, first - 1, first - 1, m);
        for (int64_t b = first; b <= last; ++b) {
          add({.op = Op::Forward, .block = b, .micro_batch = m});
        }
        send(Op::Send, last, last + 1, m);
        break;
      case ActionKind::Backward:
      case ActionKind::BackwardInput:
        receive(Op::ReceiveGrad, last, last + 1, m);
        for (int64_t b = last; b >= first; --b) backward(b, m, kind == ActionKind::Backward);
        send(Op::SendGrad, first - 1, first - 1, m);
        break;
      case ActionKind::BackwardWeight:
        for (int64_t b = last; b >= first; --b) {
          add({.op = Op::BackwardWeight, .block = b, .micro_batch = m});
          finish_units(b, m);
        }
        break;
    }
  }

  void add(const Instruction& i) { program_.push_back(i); }

  void loss(int64_t m) { add({.op = Op::Loss, .micro_batch = m}); }

  /// Adds the end of a step: reductions and updates.
  void end() {
    for (int64_t unit = 0; unit < layout_.table().num_units(); ++unit) {
      if (layout_.is_tied(unit) && !layout_.table().is_frozen(unit)) {
        add({.op = Op::ReduceTied, .unit = unit});
      }
    }
    add({Op::ReduceLoss});
    add({Op::Clip});
    // Updates buckets in the order in which the next forward reads them.
    for (int64_t bucket = layout_.num_trained_buckets() - 1; bucket >= 0; --bucket) {
      add({.op = Op::Update, .bucket = bucket});
      if (layout_.gathers_updates(bucket)) add({.op = Op::Gather, .bucket = bucket});
    }
  }

  Program take() { return std::move(program_); }

 private:
  void load(int64_t m) {
    if (loaded_[static_cast<size_t>(m)]) return;
    loaded_[static_cast<size_t>(m)] = true;
    add({.op = Op::Load, .micro_batch = m});
  }

  bool is_elsewhere(int64_t block) const {
    return block >= 0 && block < layout_.table().num_blocks() && !layout_.holds(block);
  }
  /// Instruction that sends or receives block `block`'s result, or its gradient, to or from the
  /// stage that holds `other`.
  Instruction crossing(Op op, int64_t block, int64_t other, int64_t m) const {
    return {.op = op, .block = block, .micro_batch = m, .peer = layout_.stage_of(other)};
  }
  void send(Op op, int64_t block, int64_t other, int64_t m) {
    if (is_elsewhere(other)) add(crossing(op, block, other, m));
  }
  void receive(Op op, int64_t block, int64_t other, int64_t m) {
    if (!is_elsewhere(other)) return;
    const auto wanted = crossing(op, block, other, m);
    if (!is_first(wanted)) return;
    auto& [sent, at] = from_[wanted.peer];
    if (const auto all = incoming_.find(wanted.peer); sent == nullptr && all != incoming_.end()) {
      sent = &all->second;
    }
    // Messages come in the order sent: what is not needed yet is received now, and kept.
    while (sent != nullptr && at < sent->size() && !((*sent)[at] == wanted)) {
      const auto& early = (*sent)[at++];
      if (!is_first(early)) continue;
      load(early.micro_batch);
      add(early);
    }
    ++at;
    add(wanted);
  }

  /// Whether a message is received the first time.
  bool is_first(const Instruction& i) {
    const bool back = i.op == Op::ReceiveGrad;
    const int64_t number = back * layout_.table().num_blocks() + i.block;
    const auto at =
        static_cast<size_t>(number * options_.parallelism.micro_batches + i.micro_batch);
    if (received_[at]) return false;
    received_[at] = true;
    return true;
  }

  void backward(int64_t block, int64_t m, bool whole) {
    if (options_.recomputed.contains(block)) {
      add({.op = Op::Recompute, .block = block, .micro_batch = m});
    }
    add({.op = whole ? Op::Backward : Op::BackwardInput, .block = block, .micro_batch = m});
    if (whole) finish_units(block, m);
  }

  void finish_units(int64_t block, int64_t m) {
    for (const int64_t unit : finished_[static_cast<size_t>(block)]) finish(unit, m);
  }

  void finish(int64_t unit, int64_t m) {
    add({.op = Op::Accumulate, .unit = unit, .micro_batch = m});
    const bool last = m + 1 == options_.parallelism.micro_batches;
    // Sums each unit, not each bucket, since tensor ranks with unequal shares cut buckets
    // differently.
    if ((last || each_) && layout_.sums_over_tensor(unit)) {
      add({.op = Op::ReduceTensor, .unit = unit, .micro_batch = m});
    }
    const int64_t bucket = layout_.bucket_of(unit);
    auto& waiting = waiting_[static_cast<size_t>(bucket * options_.parallelism.micro_batches + m)];
    if (waiting < 0) waiting = std::ssize(layout_.buckets()[static_cast<size_t>(bucket)].units);
    if (--waiting > 0 || !(last || each_)) return;
    if (layout_.shares_out_updates()) {
      add({.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m});
    } else {
      add({.op = Op::Reduce, .bucket = bucket});
    }
  }

  const Layout& layout_;
  const StepOptions& options_;
  Incoming incoming_;
  bool each_;
  std::vector<std::vector<int64_t>> finished_;
  std::vector<bool> loaded_;    // [micro-batch]
  std::vector<bool> received_;  // see is_first()
  // [peer] What it sends, and how much of that was received.
  std::map<int, std::pair<const std::vector<Instruction>*, size_t>> from_;
  // [bucket and micro-batch] Units whose gradient is not complete yet; -1: all of them.
  std::vector<int64_t> waiting_;
  Program program_;
};

}  // namespace

Program step_program(const Layout& layout, const StepOptions& options,
                     const std::vector<BlockAction>& actions, const Incoming& incoming) {
  Maker maker(layout, options, incoming);
  maker.reserve(actions);
  for (const auto& action : actions) {
    maker.add(action);
    const bool last = action.last_block + 1 == layout.table().num_blocks();
    if (last && action.kind == ActionKind::Forward) maker.loss(action.micro_batch);
  }
  maker.end();
  return maker.take();
}

Program data_parallel_program(const Layout& layout, const StepOptions& options) {
  std::vector<BlockAction> actions;
  for (int64_t m = 0; m < options.parallelism.micro_batches; ++m) {
    for (const auto kind : {ActionKind::Forward, ActionKind::Backward}) {
      actions.push_back({kind, 0, layout.table().num_blocks() - 1, m});
    }
  }
  auto step = with_rows(step_program(layout, options, actions), layout, options);
  return with_offload(with_gathers(std::move(step), layout, options), layout);
}

Program forward_program(const Layout& layout, const StepOptions& options) {
  Maker maker(layout, options);
  for (const auto& [first, last] : layout.virtual_stages()) {
    maker.add(BlockAction{ActionKind::Forward, first, last, 0});
  }
  auto forward = with_rows(maker.take(), layout, options);
  return with_offload(with_gathers(std::move(forward), layout, options), layout);
}

bool sends(Op op) {
  return op == Op::Send || op == Op::SendGrad;
}

bool receives(Op op) {
  return op == Op::Receive || op == Op::ReceiveGrad;
}

}  // namespace convoy::parallel
