#pragma once

#include <cstdint>

namespace convoy {

/// Fills `out` with `count` numbers of the normal distribution times `scale`: those from `first` on
/// of the stream `key`, each a pure function of its place there (Box and Muller, 1958).
void fill_normals(uint64_t key, uint64_t first, int64_t count, float scale, float* out);

}  // namespace convoy
