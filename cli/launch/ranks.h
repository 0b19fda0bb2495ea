#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convoy/launch/supervise/agent.h"

namespace convoy::cli {

/// Starts this command again as `nproc` ranks (`--nproc`) and returns their exit code; returns
/// nothing when none or one is asked for. `interrupt_grace`: seconds in which the ranks save after
/// a signal, as in LaunchOptions. Throws UsageError where a launcher made this process one of its
/// ranks.
std::optional<int> launch_ranks(std::optional<int64_t> nproc,
                                std::optional<double> interrupt_grace = {});

/// Starts this program again, as it was typed and with `more` arguments, as `num_ranks` ranks;
/// returns their exit code.
int launch_again(int num_ranks, const std::vector<std::string>& more = {},
                 std::optional<double> interrupt_grace = {});

}  // namespace convoy::cli
