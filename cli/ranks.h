#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace convoy::cli {

/// For `--nproc`: starts this command again as `nproc` ranks and returns their exit code; nothing
/// when none or one is asked for. Throws UsageError where a launcher made this process one of its
/// ranks.
std::optional<int> launch_ranks(std::optional<int64_t> nproc);

/// Starts this program again, as it was typed and with `more` arguments, as `num_ranks` ranks;
/// returns their exit code.
int launch_again(int num_ranks, const std::vector<std::string>& more = {});

}  // namespace convoy::cli
