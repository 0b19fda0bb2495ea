#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "convoy/comm/store.h"

namespace convoy::comm {

/// Takes this rank's place at a job's store. Throws UsageError where the store is another job's, or
/// where a process that still runs has taken the place.
void take_place(const StoreAddress& point, c10d::Store& store);

/// What each rank says, by rank; each says as many things. Waits for all. Rank 0 collects and
/// publishes, so that a rank asks the store a few times, however many ranks there are.
/// Throws CommunicationError naming those that did not come within `patience`.
std::vector<std::vector<std::string>> roll_call(const StoreAddress& point,
                                                const c10::intrusive_ptr<c10d::Store>& store,
                                                const std::vector<std::string>& own,
                                                std::chrono::milliseconds patience);

/// Before all leave because of what a roll call told them: rank 0, with whom the store goes, waits
/// for a moment until the others have heard it too, but for those who did not come.
void let_all_hear(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                  const std::vector<int>& missing = {});

}  // namespace convoy::comm
