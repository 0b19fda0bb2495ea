#include "convoy/job/numerics.h"

#include <ATen/Context.h>

#include <cstdlib>

namespace convoy::job {

void make_gpus_deterministic() {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
}

Tf32::Tf32(bool wanted) : before_(at::globalContext().allowTF32CuBLAS()) {
  if (wanted) at::globalContext().setAllowTF32CuBLAS(true);
}

Tf32::~Tf32() {
  at::globalContext().setAllowTF32CuBLAS(before_);
}

}  // namespace convoy::job
