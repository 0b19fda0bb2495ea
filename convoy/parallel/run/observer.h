#pragma once

#include <memory>

#include "convoy/parallel/zero/torch/gathers.h"

namespace convoy::parallel {

/// Observer of the instructions that an executor runs: called before and after each of them;
/// after() is not called when one throws.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const Instruction& instruction) = 0;
  /// Whether the instruction is to be left out; asked after before().
  virtual bool skips(const Instruction& /*instruction*/) { return false; }
  virtual void after(const Instruction& instruction) = 0;
};

/// Makes the observer that tells each instruction as the activity of this process, and as a range
/// of traces.
std::unique_ptr<Observer> make_activity_observer();

/// Makes the observer that triggers the faults of CONVOY_FAULT (docs/faults.md).
std::unique_ptr<Observer> make_fault_injector(FlatBuffers& flat, Gathers& gathers,
                                              const comm::Groups& groups);

}  // namespace convoy::parallel
