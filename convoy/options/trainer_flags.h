#pragma once

#include <vector>

#include "convoy/base/options.h"

namespace convoy::options {

/// Flags of Hugging Face's Trainer that are no options here, each with the reason or with what to
/// try in its place; behind them those of `more`.
std::vector<OtherFlag> trainer_flags(const std::vector<OtherFlag>& more = {});

}  // namespace convoy::options
