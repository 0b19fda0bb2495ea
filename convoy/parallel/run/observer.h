#pragma once

#include <memory>

#include "convoy/parallel/zero/torch/gathers.h"

namespace convoy::parallel {

/// Is called before and after each instruction that an executor runs; after() not when it throws.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const Instruction& instruction) = 0;
  /// Whether the instruction is to be left out; asked after before().
  virtual bool skips(const Instruction& /*instruction*/) { return false; }
  virtual void after(const Instruction& instruction) = 0;
};

/// Tells whoever watches this process what it does, and writes a range into traces.
std::unique_ptr<Observer> make_activity_observer();

/// Lets the faults of CONVOY_FAULT happen (docs/faults.md).
std::unique_ptr<Observer> make_fault_injector(FlatBuffers& flat, Gathers& gathers,
                                              const comm::Groups& groups);

}  // namespace convoy::parallel
