#include "convoy/parallel/program/op_table.h"

#include "convoy/base/error.h"

namespace convoy::parallel {

const OpFacts& facts_of(Op op) {
  static const std::map<Op, OpFacts> all{
      {Op::Load, {"load, micro-batch {m}", Operands::MicroBatch}},
      {Op::Gather, {"gather bucket {bucket}", Operands::Bucket, Among::Data, "gather"}},
      {Op::Release, {"release bucket {bucket}", Operands::Bucket}},
      {Op::Fetch, {"fetch {kind} of bucket {bucket}", Operands::Bucket}},
      {Op::Store, {"store {kind} of bucket {bucket}", Operands::Bucket, Among::Self, "offload"}},
      {Op::Forward,
       {"forward block {block}, micro-batch {m}", Operands::Block, Among::Self, "forward"}},
      {Op::Loss, {"loss, micro-batch {m}", Operands::MicroBatch}},
      {Op::Recompute, {"recompute block {block}, micro-batch {m}", Operands::Block}},
      {Op::Backward,
       {"backward block {block}, micro-batch {m}", Operands::Block, Among::Self, "backward"}},
      {Op::BackwardInput,
       {"backward input of block {block}, micro-batch {m}", Operands::Block, Among::Self,
        "backward"}},
      {Op::BackwardWeight,
       {"backward weight of block {block}, micro-batch {m}", Operands::Block, Among::Self,
        "backward_weight"}},
      {Op::Send,
       {"send block {block}, micro-batch {m}, to rank {peer}", Operands::Border, Among::Peer,
        "send"}},
      {Op::Receive,
       {"receive block {block}, micro-batch {m}, from rank {peer}", Operands::Border, Among::Peer,
        "receive"}},
      {Op::SendGrad,
       {"send gradient of block {block}, micro-batch {m}, to rank {peer}", Operands::Border,
        Among::Peer, "send"}},
      {Op::ReceiveGrad,
       {"receive gradient of block {block}, micro-batch {m}, from rank {peer}", Operands::Border,
        Among::Peer, "receive"}},
      {Op::Accumulate, {"accumulate unit {unit}, micro-batch {m}", Operands::TrainedUnit}},
      {Op::ReduceTensor,
       {"reduce unit {unit} over tensor ranks, micro-batch {m}", Operands::TensorUnit,
        Among::Tensor}},
      {Op::Reduce, {"reduce bucket {bucket}", Operands::TrainedBucket, Among::Data, "reduce"}},
      {Op::ReduceScatter,
       {"reduce-scatter bucket {bucket}, micro-batch {m}", Operands::TrainedBucket, Among::Data,
        "reduce"}},
      {Op::ReduceTied, {"reduce tied unit {unit}", Operands::TiedUnit, Among::StagesOfUnit}},
      {Op::ReduceLoss, {"reduce loss", Operands::None, Among::All}},
      {Op::Clip, {"clip"}},
      {Op::Update, {"update bucket {bucket}", Operands::TrainedBucket, Among::Self, "update"}},
      {Op::FetchRows, {"fetch rows of unit {unit}", Operands::RowsUnit, Among::Data}},
      {Op::ReduceRows, {"reduce rows of unit {unit}", Operands::RowsUnit, Among::Data}},
      {Op::UpdateRows, {"update rows of unit {unit}", Operands::RowsUnit}},
      {Op::ScoreRows, {"score rows of unit {unit}", Operands::RowsUnit, Among::Data}}};
  const auto found = all.find(op);
  internal_check(found != all.end(), "parallel", "operation {} has no entry in the table",
                 static_cast<int>(op));
  return found->second;
}

}  // namespace convoy::parallel
