#pragma once

#include <string_view>

namespace convoy::machine {

/// Reads a number of ranks: a number, "gpu" (one each), "cpu" (one a core) or "auto" (GPUs if there
/// are any, else cores). Throws UsageError.
int resolve_num_ranks(std::string_view text);

}  // namespace convoy::machine
