#pragma once

#include <cstdint>
#include <functional>

namespace convoy {

/// Called now and then by long work; may be empty. The caller decides what to print.
using ProgressFn = std::function<void(int64_t done, int64_t total)>;

}  // namespace convoy
