#pragma once

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// An engine that moves only tensors of `device` (Gloo: the host, NCCL: a GPU) made to take any:
/// others are copied there before and back after. A GPU's go to the host beside its computing; from
/// the first of them on, or at once where `behind`, all collectives take turns on a thread that
/// waits for the copies, and the caller only waits for what it asks for.
std::shared_ptr<Engine> make_staged_engine(std::shared_ptr<Engine> engine, at::Device device,
                                           bool behind = false);

}  // namespace convoy::comm
