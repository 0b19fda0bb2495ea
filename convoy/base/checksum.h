#pragma once

#include <cstddef>
#include <cstdint>

namespace convoy {

/// Returns the sum over elements of value x (2 x index + 1), modulo 2^64: any changed bit changes
/// it, and sums of pieces add up. `data` holds elements of `width` bytes, the first of them number
/// `begin` of all.
uint64_t checksum(const void* data, size_t count, size_t width, uint64_t begin);

}  // namespace convoy
