#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "convoy/comm/engine.h"

namespace convoy::comm {

/// Wraps any c10d backend as an Engine. `names`: see MeetingPoint.
std::shared_ptr<Engine> make_c10d_engine(const char* name,
                                         c10::intrusive_ptr<c10d::Backend> backend,
                                         const std::vector<int>& names = {});

}  // namespace convoy::comm
