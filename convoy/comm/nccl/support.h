#pragma once

#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>
#include <vector>

#include "convoy/comm/store.h"

namespace convoy::comm {

/// What a rank tells the others before they choose between NCCL and the host.
struct NcclSupport {
  std::string missing;  ///< why this rank cannot use NCCL, or ""
  std::string gpu;      ///< identity() of its GPU
};

/// Why these ranks cannot use NCCL, which wants a GPU of its own for each; "" when they can.
std::string why_not_nccl(const std::vector<NcclSupport>& ranks);

/// What every rank tells, through the store.
std::vector<NcclSupport> gather_nccl_support(const MeetingPoint& point,
                                             const c10::intrusive_ptr<c10d::Store>& store,
                                             at::Device device);

}  // namespace convoy::comm
