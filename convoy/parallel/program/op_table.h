#pragma once

#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Operands that an instruction has, and must fit the rank's layout.
enum class Operands {
  None,
  MicroBatch,
  Bucket,
  TrainedBucket,
  Block,        ///< of this rank, with a micro-batch
  Border,       ///< a block at the border to the stage of `peer`, with a micro-batch
  TrainedUnit,  ///< with a micro-batch
  TensorUnit,   ///< a unit of which tensor ranks have parts of the gradient, with a micro-batch
  TiedUnit,     ///< a unit that other stages hold, too
  RowsUnit      ///< a unit that is kept by rows
};

/// Ranks that take part in an instruction.
enum class Among { Self, Peer, Data, Tensor, StagesOfUnit, All };

/// Facts of an instruction that do not depend on the layout.
struct OpFacts {
  /// Text for people; its operands stand in braces: block, unit, bucket, m (micro-batch), peer,
  /// kind.
  const char* text;
  Operands operands = Operands::None;
  Among among = Among::Self;
  const char* phase = nullptr;  ///< phase at which faults are injected; null: none
};

const OpFacts& facts_of(Op op);

}  // namespace convoy::parallel
