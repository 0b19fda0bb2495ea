#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

namespace convoy::nn {

/// Guard: while one lives, layers of this thread allocate memory as usual but leave the arithmetic
/// out. Shapes and an observer's counts are right; floats that layers return are undefined.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

 private:
  bool before_;
};

/// Whether one lives in this thread.
bool shapes_only();

/// Arithmetic on floats, in parallel as at::parallel_for.
template <class Work>
void in_parallel(int64_t begin, int64_t end, int64_t grain, const Work& work) {
  if (!shapes_only()) at::parallel_for(begin, end, grain, work);
}

}  // namespace convoy::nn
