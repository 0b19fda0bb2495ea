#include <map>
#include <set>
#include <utility>

#include "convoy/base/error.h"
#include "convoy/schedule/program.h"

namespace convoy::schedule {

void check(const Program& program, const ModelTable& table,
           const std::vector<std::vector<int64_t>>& buckets, int64_t num_micro_batches) {
  using Cell = std::pair<int64_t, int64_t>;  // (block or unit, micro-batch)
  std::set<Cell> forward, recomputed, backward, accumulated;
  std::set<int64_t> loaded, lost, reduced;
  int64_t loss_reductions = 0, clips = 0;
  auto require = [](bool condition, const Instruction& i, const char* what) {
    internal_check(condition, "schedule", "'{}' {}", to_text(i), what);
  };
  for (const auto& i : program) {
    const int64_t m = i.micro_batch;
    switch (i.op) {
      case Op::Load:
        require(loaded.insert(m).second, i, "comes twice");
        break;
      case Op::Forward:
        require(loaded.count(m) != 0, i, "comes before its load");
        require(i.block == 0 || forward.count({i.block - 1, m}) != 0, i, "has no input yet");
        require(forward.insert({i.block, m}).second, i, "comes twice");
        break;
      case Op::Loss:
        require(forward.count({table.num_blocks() - 1, m}) != 0, i, "comes before the last block");
        require(lost.insert(m).second, i, "comes twice");
        break;
      case Op::Recompute:
        require(i.block + 1 < table.num_blocks() && backward.count({i.block + 1, m}) != 0, i,
                "comes before the backward of the block after it");
        require(backward.count({i.block, m}) == 0, i, "comes after its backward");
        require(recomputed.insert({i.block, m}).second, i, "comes twice");
        break;
      case Op::Backward:
        require(lost.count(m) != 0, i, "comes before the loss");
        require(i.block + 1 == table.num_blocks() || backward.count({i.block + 1, m}) != 0, i,
                "has no gradient yet");
        require(backward.insert({i.block, m}).second, i, "comes twice");
        break;
      case Op::Accumulate:
        require(backward.count({table.last_reader_in_backward(i.unit), m}) != 0, i,
                "comes before its last reader's backward");
        require(accumulated.insert({i.unit, m}).second, i, "comes twice");
        break;
      case Op::Reduce:
        for (int64_t unit : buckets.at(static_cast<size_t>(i.unit))) {
          for (int64_t each = 0; each < num_micro_batches; ++each) {
            require(accumulated.count({unit, each}) != 0, i, "comes before its gradient is whole");
          }
        }
        require(reduced.insert(i.unit).second, i, "comes twice");
        break;
      case Op::ReduceLoss:
        require(static_cast<int64_t>(lost.size()) == num_micro_batches, i, "comes too early");
        require(++loss_reductions == 1, i, "comes twice");
        break;
      case Op::Clip:
        require(reduced.size() == buckets.size(), i, "comes before all reductions");
        require(loss_reductions == 1, i, "comes before the loss is reduced");
        require(++clips == 1, i, "comes twice");
        break;
      case Op::OptimizerStep:
        require(&i == &program.back() && program.size() > 1 &&
                    program[program.size() - 2].op == Op::Clip,
                i, "is not the last, after clip");
        break;
    }
  }
  internal_check(!program.empty() && program.back().op == Op::OptimizerStep, "schedule",
                 "a program without optimizer step");
}

}  // namespace convoy::schedule
