#pragma once

namespace convoy::cli {

/// Commands that take a run's options, and compute.
inline constexpr const char* kConfiguredCommands[] = {"train",    "eval",     "predict", "generate",
                                                      "estimate", "schedule", "bench"};

}  // namespace convoy::cli
