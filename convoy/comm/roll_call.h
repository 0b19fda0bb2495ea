#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "convoy/comm/store.h"

namespace convoy::comm {

/// Key under which rank 0 tells size_and_job() to ranks of other jobs.
constexpr const char* kJob = "job";

/// Numbers that set a job apart from others at the same store.
std::string size_and_job(const StoreAddress& point);

/// Throws UsageError where rank 0 at this store is of another job.
void check_job(const StoreAddress& point, c10d::Store& store);

/// Texts of each rank, by rank; each says as many things. Waits for all. Rank 0 collects and
/// publishes, so that a rank asks the store a few times, however many ranks there are.
/// Throws CommunicationError naming those that did not come within `patience`, and UsageError where
/// a process that still runs is the same rank. Calls `when_late` where others let a rank wait.
std::vector<std::vector<std::string>> roll_call(const StoreAddress& point,
                                                const c10::intrusive_ptr<c10d::Store>& store,
                                                const std::vector<std::string>& own,
                                                std::chrono::milliseconds patience,
                                                const std::function<void()>& when_late = {});

/// Lets rank 0, whose end closes the store, wait for a moment until the other ranks have read what
/// a roll call told; `missing` ranks are left out. All ranks call this before they leave because of
/// it.
void let_all_hear(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store,
                  const std::vector<int>& missing = {});

}  // namespace convoy::comm
