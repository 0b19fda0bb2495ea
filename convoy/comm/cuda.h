#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace convoy::comm {

/// GPUs of this machine that torch can use.
struct Cuda {
  int num_devices =
      0;  ///< that CUDA_VISIBLE_DEVICES leaves; 0 without GPU, driver or torch's CUDA library
  std::string why_none;
};

/// Opens torch's CUDA library, which a program without a GPU never loads. Once per process, before
/// anything else asks torch for CUDA: torch keeps its first answer, and a seed or a backward on the
/// CPU asks.
const Cuda& open_cuda();

/// Folders of plugins: beside the program or library that holds this code, or in ../lib from there.
std::vector<std::filesystem::path> plugin_folders();

}  // namespace convoy::comm
