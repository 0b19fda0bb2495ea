#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace convoy::shm {

enum class Dtype : uint32_t { F32, F64, F16, BF16, I8, U8, I32, I64 };
enum class Reduction : uint32_t { Sum, Max };

size_t size_of(Dtype dtype);
const char* name_of(Dtype dtype);

/// Instruction sets that have a loop of their own, each able to do what those before it do.
enum class Instructions { Any, Avx2, Avx512 };

/// Returns the best instructions of this machine.
Instructions best_instructions();

/// out[i] = inputs[0][i] op inputs[1][i] op ..., in that order, so the bits do not depend on who
/// computes it. fp16 and bf16 are added in fp32 and rounded once; integers wrap around; a maximum
/// with NaN is NaN. `out` may be one of the inputs.
void reduce(Dtype dtype, Reduction op, void* out, std::span<const void* const> inputs, size_t count,
            Instructions instructions = best_instructions());

}  // namespace convoy::shm
