#include "convoy/schedule/program.h"

#include <fmt/format.h>

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

  Program make() {
    for (int64_t m = 0; m < options_.num_micro_batches; ++m) micro_batch(m);
    program_.push_back({Op::ReduceLoss});
    program_.push_back({Op::Clip});
    // In the order in which the next forward reads them.
    for (int64_t bucket = layout_.num_trained_buckets() - 1; bucket >= 0; --bucket) {
      program_.push_back({.op = Op::Update, .bucket = bucket});
      if (layout_.gathers_updates(bucket)) {
        program_.push_back({.op = Op::Gather, .bucket = bucket});
      }
    }
    return program_;
  }

 private:
  void micro_batch(int64_t m) {
    waiting_.clear();
    for (const auto& bucket : layout_.buckets()) waiting_.push_back(bucket.units.size());
    const int64_t num_blocks = layout_.table().num_blocks();
    program_.push_back({.op = Op::Load, .micro_batch = m});
    for (int64_t block = 0; block < num_blocks; ++block) {
      program_.push_back({.op = Op::Forward, .block = block, .micro_batch = m});
    }
    program_.push_back({.op = Op::Loss, .micro_batch = m});
    for (int64_t block = num_blocks - 1; block >= 0; --block) {
      if (options_.recomputed.contains(block)) {
        program_.push_back({.op = Op::Recompute, .block = block, .micro_batch = m});
      }
      program_.push_back({.op = Op::Backward, .block = block, .micro_batch = m});
      for (const int64_t unit : finished_[static_cast<size_t>(block)]) finish(unit, m);
    }
  }

  void finish(int64_t unit, int64_t m) {
    program_.push_back({.op = Op::Accumulate, .unit = unit, .micro_batch = m});
    const int64_t bucket = layout_.bucket_of(unit);
    const bool last = m + 1 == options_.num_micro_batches;
    if (--waiting_[static_cast<size_t>(bucket)] > 0 || !(last || each_)) return;
    if (layout_.shares_out_updates()) {
      program_.push_back({.op = Op::ReduceScatter, .bucket = bucket, .micro_batch = m});
    } else {
      program_.push_back({.op = Op::Reduce, .bucket = bucket});
    }
  }

  const Layout& layout_;
  const StepOptions& options_;
  bool each_;
  std::vector<std::vector<int64_t>> finished_;
  std::vector<size_t> waiting_;  // units of each bucket whose gradient is not complete yet
  Program program_;
};

}  // namespace

Program data_parallel_program(const Layout& layout, const StepOptions& options) {
  return with_offload(with_gathers(Maker(layout, options).make(), layout, options), layout);
}

Program forward_program(const Layout& layout, const StepOptions& options) {
  Program program{{.op = Op::Load, .micro_batch = 0}};
  for (int64_t block = 0; block < layout.table().num_blocks(); ++block) {
    program.push_back({.op = Op::Forward, .block = block, .micro_batch = 0});
  }
  return with_offload(with_gathers(program, layout, options), layout);
}

bool sends(Op op) {
  return op == Op::Send || op == Op::SendGrad;
}

bool receives(Op op) {
  return op == Op::Receive || op == Op::ReceiveGrad;
}

size_t exchange_length(const Program& program, size_t at) {
  const auto& first = program[at];
  if (!sends(first.op) && !receives(first.op)) return 0;
  if (!first.with_next || at + 1 == program.size()) return 1;
  const auto& second = program[at + 1];
  const bool opposite = sends(first.op) ? receives(second.op) : sends(second.op);
  return opposite && second.peer == first.peer ? 2 : 1;
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
