#include "convoy/parallel/program/steps.h"
#include "convoy/parallel/program/op_table.h"

namespace convoy::parallel {

const std::vector<int>& Holders::of(const RankProgram& rank) {
  const auto [found, fresh] = known_.try_emplace(rank.pipeline);
  auto& out = found->second;
  if (!fresh) return out;
  out.assign(rank.layout.table().units_of_block.size(), -1);
  for (size_t block = 0; block < out.size(); ++block) {
    for (size_t stage = 0; stage < rank.pipeline.size(); ++stage) {
      const auto& layout = ranks_.at(static_cast<size_t>(rank.pipeline[stage])).layout;
      if (!layout.holds(static_cast<int64_t>(block))) continue;
      internal_check(out[block] < 0, "parallel", "block {} is held by stages {} and {}", block,
                     out[block], stage);
      out[block] = static_cast<int>(stage);
    }
    internal_check(out[block] >= 0 || rank.pipeline.empty(), "parallel",
                   "block {} is held by no stage", block);
  }
  return out;
}

Steps::Steps(int rank, const RankProgram& of, const std::vector<int>& holders)
    : layout_(of.layout), rank_(rank), holders_(holders) {
  for (const auto& i : of.program) {
    const bool half = i.op == Op::BackwardInput || i.op == Op::BackwardWeight;
    if (half) in_halves_.insert({i.block, i.micro_batch});
  }
}

void Steps::check_operands(const Instruction& i, int64_t num_micro_batches) const {
  const bool has_micro_batch = i.micro_batch >= 0 && i.micro_batch < num_micro_batches;
  const bool has_block = i.block >= 0 && i.block < num_blocks();
  const auto has_unit = [&] { return i.unit >= 0 && i.unit < layout_.table().num_units(); };
  switch (facts_of(i.op).operands) {
    case Operands::None:
      return;
    case Operands::MicroBatch:
      break;
    case Operands::Bucket:
      return require(i.bucket >= 0 && i.bucket < layout_.num_buckets(), i,
                     "names a bucket that is not here");
    case Operands::TrainedBucket:
      return require(i.bucket >= 0 && i.bucket < layout_.num_trained_buckets(), i,
                     "names a bucket that is not here, or not trained");
    case Operands::TrainedUnit:
      return require(has_micro_batch && has_unit() &&
                         (layout_.holds_unit(i.unit) || layout_.is_by_rows(i.unit)) &&
                         !layout_.table().is_frozen(i.unit),
                     i, "names a unit or a micro-batch that is not here, or not trained");
    case Operands::RowsUnit:
      return require(layout_.is_by_rows(i.unit), i, "names a unit that is not kept by rows");
    case Operands::TensorUnit:
      return require(has_micro_batch && has_unit() && layout_.sums_over_tensor(i.unit), i,
                     "names a unit or a micro-batch that is not here, or not in parts");
    case Operands::TiedUnit:
      return require(has_unit() && layout_.holds_unit(i.unit) && layout_.is_tied(i.unit) &&
                         !layout_.table().is_frozen(i.unit),
                     i, "names a unit that no other stage holds, or that is not trained");
    case Operands::Block:
      require(has_block && layout_.holds(i.block), i, "names a block that is not here");
      break;
    case Operands::Border: {
      require(has_block && i.block + 1 < num_blocks(), i, "names a block that has none after it");
      const bool from_block = i.op == Op::Send || i.op == Op::ReceiveGrad;
      const int64_t here = from_block ? i.block : i.block + 1;
      const int64_t there = from_block ? i.block + 1 : i.block;
      require(layout_.holds(here) && !layout_.holds(there), i, "is not at a border of this rank");
      require(i.peer == holder(there), i, "names a peer that does not hold the block");
      break;
    }
  }
  require(has_micro_batch, i, "names a micro-batch that there is not");
}

}  // namespace convoy::parallel
