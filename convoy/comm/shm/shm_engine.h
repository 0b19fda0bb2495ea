#pragma once

#include "convoy/comm/group.h"
#include "convoy/comm/store.h"
#include "convoy/shm/segment.h"

namespace convoy::comm {

/// An engine for the ranks of one host, on host tensors in memory of their own.
std::shared_ptr<Engine> make_shm_engine(const char* name, std::shared_ptr<shm::Segment> segment,
                                        int rank, std::chrono::milliseconds timeout);

/// A group of processes of one host and user over shared memory; tensors of a GPU travel through
/// the host. Throws CommunicationError when the others do not come.
Group make_shm_group(const StoreAddress& point, const c10::intrusive_ptr<c10d::Store>& store);

}  // namespace convoy::comm
