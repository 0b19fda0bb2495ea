#pragma once

#include <c10/core/Device.h>

#include <string>
#include <vector>

namespace convoy::comm {

/// Facts that a rank tells the others before they choose between NCCL and the host.
struct NcclSupport {
  std::string missing;  ///< reason why this rank cannot use NCCL, or ""
  std::string gpu;      ///< identity() of its GPU
};

/// Reason why these ranks cannot use NCCL, which wants a GPU of its own for each; "" when they can.
std::string why_not_nccl(const std::vector<NcclSupport>& ranks);

/// Returns the facts of this rank.
NcclSupport own_nccl_support(at::Device device);

}  // namespace convoy::comm
