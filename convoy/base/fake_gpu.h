#pragma once

#include <filesystem>
#include <optional>

namespace convoy {

/// Simulated GPUs, for tests only (tests/fake_gpu).
struct FakeGpus {
  std::filesystem::path folder;  ///< holds stand-ins of libtorch_cuda.so and libconvoy_nccl.so
  int number = 0;
};

/// Returns the GPUs that CONVOY_FAKE_GPU=FOLDER:NUMBER asks for; nothing where it is not set.
/// Throws UsageError.
std::optional<FakeGpus> fake_gpus();

}  // namespace convoy
