#pragma once

#include <cstdint>
#include <optional>

namespace convoy::cli {

/// For `--nproc`: starts this command again as `nproc` ranks and returns their exit code; nothing
/// when there is one rank or this process is one already.
std::optional<int> launch_ranks(int64_t nproc);

}  // namespace convoy::cli
