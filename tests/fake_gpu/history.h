#pragma once

#include <cstdint>
#include <optional>

#include "tests/fake_gpu/notes.h"
#include "tests/fake_gpu/order.h"

// Who read and wrote which bytes last, of devices and of pinned memory.
namespace convoy::fake_gpu {

struct Range {
  uintptr_t begin = 0, end = 0;
  bool empty() const { return begin >= end; }
};

/// An operation's use of memory, which belonged to this allocation then.
struct Access {
  Stamp stamp;
  const Note* note = nullptr;
  uint64_t allocation = 0;
};

/// An earlier access that nothing orders before a later one.
struct Conflict {
  Access before;
  bool before_wrote = false;
  Range range;
};

/// Notes that `access` reads or writes `range`; returns the first earlier one that may still run.
std::optional<Conflict> touch(Range range, bool writes, const Access& access);

/// Whether all that was done with `range` is done before `access` begins; nothing is noted.
std::optional<Conflict> look(Range range, bool writes, const Access& access);

/// The first use of `range` that the host does not know to be done.
std::optional<Access> unknown_to_host(Range range);

/// The memory went back to the system.
void forget(Range range);

}  // namespace convoy::fake_gpu
