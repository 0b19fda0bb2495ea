#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// A collective that a GPU carries out behind the host's back.
struct PendingWork {
  std::shared_ptr<Work> work;  ///< its done() asks the GPU, its wait() throws what went wrong
  std::string label;
  std::vector<int> others;  ///< ranks that it may be waiting for
  std::chrono::milliseconds timeout{0};
};

/// Keeps a collective of this process until the GPU has ended it.
void add_pending(PendingWork work);

/// Returns when the GPUs have ended all collectives of this process. Whoever is about to wait for
/// numbers of a GPU calls it first: a rank that does not come would make that wait endless. Throws
/// CommunicationError that names the first collective that is not done when none has ended for as
/// long as its timeout.
void finish_pending();

/// Waits as finish_pending() does, but returns as soon as `is_over` is true, too: for a wait of the
/// GPU that need not be for all collectives. Threads that wait at the same time all get the error
/// for a collective that is not done.
void finish_pending_or(const std::function<bool()>& is_over);

/// Whether a collective that some wait has given up is still under way: waiting for the GPU now
/// would have no end.
bool is_stuck();

}  // namespace convoy::comm
