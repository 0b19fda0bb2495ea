#include <algorithm>
#include <utility>

#include "convoy/parallel/program/insertions.h"

namespace convoy::parallel {

Program with_rows(Program program, const Layout& layout, const StepOptions& options) {
  Insertions insertions;
  const bool trains = std::any_of(program.begin(), program.end(),
                                  [](const Instruction& i) { return i.op == Op::Clip; });
  for (const int64_t unit : layout.row_units()) {
    insertions.take(0, {.op = Op::FetchRows, .unit = unit});
    const int64_t reader = layout.first_reader_of_rows(unit);
    for (size_t at = 0; at < program.size(); ++at) {
      const auto& i = program[at];
      if (i.op != Op::Backward || i.block != reader) continue;
      insertions.take(at + 1, {.op = Op::Accumulate, .unit = unit, .micro_batch = i.micro_batch});
      const bool last = i.micro_batch + 1 == options.parallelism.micro_batches;
      if (last) insertions.take(at + 1, {.op = Op::ReduceRows, .unit = unit});
    }
    insertions.take(program.size(), {.op = trains ? Op::UpdateRows : Op::ScoreRows, .unit = unit});
  }
  return insertions.into(std::move(program));
}

}  // namespace convoy::parallel
