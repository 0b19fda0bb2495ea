#include <fmt/format.h>

#include <charconv>

#include "convoy/parallel/program/op_table.h"
#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

namespace {

const char* name_of(Kind kind) {
  constexpr const char* kNames[] = {"weights", "masters", "gradients", "moments"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace

std::string to_text(const Instruction& i) {
  return fmt::format(fmt::runtime(facts_of(i.op).text), fmt::arg("block", i.block),
                     fmt::arg("unit", i.unit), fmt::arg("bucket", i.bucket),
                     fmt::arg("m", i.micro_batch), fmt::arg("peer", i.peer),
                     fmt::arg("kind", name_of(i.kind)));
}

std::string to_text(const Program& program) {
  std::string out;
  for (const auto& instruction : program) out += to_text(instruction) + "\n";
  return out;
}

std::optional<Instruction> block_instruction(std::string_view text) {
  for (const auto op :
       {Op::Forward, Op::Recompute, Op::Backward, Op::BackwardInput, Op::BackwardWeight}) {
    const std::string_view known = facts_of(op).text;
    const auto begin = known.substr(0, known.find('{'));  // up to the block's number
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

}  // namespace convoy::parallel
