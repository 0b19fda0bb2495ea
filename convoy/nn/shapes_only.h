#pragma once

#include <ATen/Parallel.h>

#include <cstdint>

namespace convoy::nn {

/// While one lives, layers of this thread take the memory they would and leave the arithmetic out:
/// shapes, and what an observer counts, are theirs; floats that they return are undefined.
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
