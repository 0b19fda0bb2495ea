#pragma once

#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Throws UsageError on all ranks, naming the first entry in which a rank differs from rank 0,
/// unless `entries` are the same everywhere. `what` is the thing that they describe: "model".
void check_agreement(const Group& group, const std::vector<std::string>& entries,
                     const std::string& what);

}  // namespace convoy::comm
