#pragma once

#include <filesystem>
#include <string_view>

namespace convoy::machine {

/// How many NVIDIA GPUs a program on this host would see, found without loading CUDA.
/// `visible` is CUDA_VISIBLE_DEVICES, null when it is not set.
int count_gpus(const char* visible, const std::filesystem::path& dev = "/dev");

/// Reads a number of ranks: a number, "gpu" (one each), "cpu" (one a core) or "auto" (GPUs if there
/// are any, else cores). Throws UsageError.
int resolve_num_ranks(std::string_view text);

}  // namespace convoy::machine
