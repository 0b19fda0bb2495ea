#pragma once

#include <functional>
#include <string>

#include "convoy/base/json.h"
#include "convoy/comm/group.h"

namespace convoy::train {

/// What `look` returns on rank 0, told to all ranks; what it throws, all throw. For decisions that
/// hang on files: each rank may see others, and all must decide alike.
Json ask_main(const comm::Group& group, const std::string& label,
              const std::function<Json()>& look);

}  // namespace convoy::train
