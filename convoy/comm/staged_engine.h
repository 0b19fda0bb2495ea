#pragma once

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// An engine that moves only tensors of `device` (Gloo: the host, NCCL: a GPU) made to take any:
/// others are copied there before and back after.
std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> engine, at::Device device);

}  // namespace convoy::comm
