#include <fmt/format.h>

#include <charconv>

#include "convoy/schedule/run/program.h"

namespace convoy::schedule {

namespace {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"weights", "masters", "gradients", "moments"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

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
    case Op::BackwardInput:
      return fmt::format("backward input of block {}, micro-batch {}", i.block, i.micro_batch);
    case Op::BackwardWeight:
      return fmt::format("backward weight of block {}, micro-batch {}", i.block, i.micro_batch);
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
    case Op::ReduceTensor:
      return fmt::format("reduce unit {} over tensor ranks, micro-batch {}", i.unit, i.micro_batch);
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
    case Op::FetchRows:
      return fmt::format("fetch rows of unit {}", i.unit);
    case Op::ReduceRows:
      return fmt::format("reduce rows of unit {}", i.unit);
    case Op::UpdateRows:
      return fmt::format("update rows of unit {}", i.unit);
    case Op::ScoreRows:
      return fmt::format("score rows of unit {}", i.unit);
  }
  return "?";
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& instruction : program) out += to_text(instruction) + "\n";
  return out;
}

std::optional<Instruction> block_instruction(std::string_view text) {
  // Up to the block's number.
  constexpr std::pair<std::string_view, Op> kBegins[] = {
      {"forward block ", Op::Forward},
      {"recompute block ", Op::Recompute},
      {"backward block ", Op::Backward},
      {"backward input of block ", Op::BackwardInput},
      {"backward weight of block ", Op::BackwardWeight}};
  for (const auto& [begin, op] : kBegins) {
    if (!text.starts_with(begin)) continue;
    Instruction out{.op = op};
    const auto number = [&](std::string_view from, int64_t& into) {
      std::from_chars(from.data(), from.data() + from.size(), into);
    };
    number(text.substr(begin.size()), out.block);
    if (const auto comma = text.rfind(' '); comma != std::string_view::npos) {
      number(text.substr(comma + 1), out.micro_batch);
    }
    if (to_text(out) == text) return out;
  }
  return {};
}

}  // namespace convoy::schedule
