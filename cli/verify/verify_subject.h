#pragma once

#include "cli/asked.h"
#include "convoy/conformance/contract.h"

namespace convoy::cli {

/// Facts on a run that decide which layouts there are, and how equal they are.
struct VerifySubject {
  int num_ranks = 1;
  bool in_threads = false;           ///< DataParallel: one process
  parallel::Parallelism own;         ///< the run's layout
  parallel::Parallelism one_device;  ///< with the rows of its step, and knobs that all layouts keep
  conformance::LayoutFacts facts;
  int64_t num_experts = 0;  ///< of a layer; 0: the model has none
  int64_t num_blocks = 1;
};

/// Facts on a run on so many ranks of this host: `typed` ones, 0 for as few as its layout takes, or
/// `least`. Throws UsageError where they do not divide.
VerifySubject subject_of(const Asked& asked, int typed, int least);

}  // namespace convoy::cli
