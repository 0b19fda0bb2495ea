#pragma once

#include <cstdint>
#include <map>

#include "tests/fake_gpu/notes.h"

namespace convoy::fake_gpu {

/// What the device was asked for under one label.
struct Counts {
  int64_t launches = 0;         ///< operations, copies on the device among them
  int64_t beside = 0;           ///< of these on other streams than the default one
  int64_t waits = 0;            ///< the host waited for the device, for whatever reason
  int64_t blocking_copies = 0;  ///< copies between host and device for which it waited
  int64_t to_device = 0, to_device_bytes = 0;
  int64_t to_host = 0, to_host_bytes = 0;
  int64_t segments = 0;       ///< allocations that the cache could not serve
  int64_t operand_bytes = 0;  ///< that operations read and wrote
  int64_t collectives = 0;    ///< of NCCL, that somebody waited for
  int64_t meanwhile = 0;      ///< launches between their starts and their waits

  void add(const Counts& other);
};

/// Adds to what the current label has. A label that ends is appended to the file of the options:
/// process, step, the numbers in the order above, the label; tabs between.
void count(const Counts& more);

/// The sum of all since the last reset.
Counts total_counts();
void reset_counts();

/// Appends what is not in the file yet.
void flush_counts();

}  // namespace convoy::fake_gpu
