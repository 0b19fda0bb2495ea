#pragma once

#include <string>
#include <vector>

#include "convoy/comm/group.h"

namespace convoy::comm {

/// Gives the tensors of all ranks the values of `root`'s, in one collective for each device and
/// type among them. Without autograd.
void broadcast_together(const Group& group, const std::vector<at::Tensor>& tensors, int root,
                        const std::string& label);

}  // namespace convoy::comm
