#pragma once

#include <cstdint>

namespace convoy::machine {

/// Resident and peak memory of this process, in bytes.
int64_t resident_bytes();
int64_t peak_resident_bytes();

}  // namespace convoy::machine
