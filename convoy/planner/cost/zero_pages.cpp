#include "convoy/planner/cost/zero_pages.h"

#include <ATen/ATen.h>
#include <sys/mman.h>

namespace convoy::planner {

at::Tensor zero_pages(at::IntArrayRef shape, at::ScalarType dtype) {
  const auto bytes = static_cast<size_t>(c10::multiply_integers(shape)) * c10::elementSize(dtype);
  void* memory = bytes == 0 ? MAP_FAILED
                            : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return at::zeros(shape, dtype);
  return at::from_blob(memory, shape, [bytes](void* pages) { ::munmap(pages, bytes); }, dtype);
}

}  // namespace convoy::planner
