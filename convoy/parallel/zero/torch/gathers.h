#pragma once

#include <vector>

#include "convoy/comm/groups.h"
#include "convoy/parallel/buffers/flat_buffers.h"
#include "convoy/parallel/program/program.h"

namespace convoy::parallel {

/// Gathers of weights, which may go on from step to step.
class Gathers {
 public:
  Gathers(FlatBuffers& flat, comm::Groups groups);

  /// Starts collecting a bucket from the ranks that own its parts: whole weights are completed in
  /// place; of shards a whole bucket is made.
  void start(int64_t bucket);
  /// Waits for the weights that an instruction reads.
  void await(const Instruction& instruction);
  /// Waits for all: nobody reads or writes weights while one is under way.
  void settle();

 private:
  FlatBuffers& flat_;
  comm::Groups groups_;
  std::vector<comm::Group::Handle> under_way_;  // [bucket]
};

}  // namespace convoy::parallel
