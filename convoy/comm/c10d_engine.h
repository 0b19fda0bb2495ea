#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include <chrono>

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// Reason of a backend's failure in one line: the message's first line without the place in its
/// source, and NCCL's own reason where there is one.
std::string reason_of(const std::exception& error);

/// Wraps any c10d backend as an Engine. `names`: see StoreAddress. What `name` = "nccl" can do and
/// Gloo cannot is used: collectives of flat tensors, a send and a receive as one; a wait there is
/// one of the GPU's stream, and what is not done after `timeout` is told by finish_pending().
std::shared_ptr<Engine> make_c10d_engine(const char* name,
                                         c10::intrusive_ptr<c10d::Backend> backend,
                                         const std::vector<int>& names = {},
                                         std::chrono::milliseconds timeout = {});

}  // namespace convoy::comm
