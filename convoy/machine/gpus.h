#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace convoy::machine {

/// An NVIDIA GPU. What is not known is "", 0 or -1.
struct Gpu {
  std::string pci;  ///< "0000:3b:00.0"
  std::string name;
  int64_t memory_bytes = 0;
  int64_t free_bytes = 0;
  int numa_node = -1;
  int pcie_lanes = 0;
  int most_pcie_lanes = 0;
  std::string pcie_speed;  ///< of the slot: "32.0 GT/s PCIe"
  int nvlinks = 0;         ///< that are up
};

/// Connection of two GPUs; a and b count in Gpus::gpus.
struct GpuLink {
  int a = 0;
  int b = 0;
  std::string path;  ///< "NVLink x4", "PCIe switch", "same PCIe root", "same NUMA node", ...
};

struct Gpus {
  std::string driver;  ///< version of the kernel module; "" when it is not loaded
  std::vector<Gpu> gpus;
  std::vector<GpuLink> links;
  std::string why_none;
  int num_visible =
      0;  ///< that a program here can open, as far as /dev and CUDA_VISIBLE_DEVICES tell
};

/// GPUs that have a device file.
int device_files(const std::filesystem::path& dev);
/// Number of the GPUs that CUDA would see, of `present` ones. `visible` is CUDA_VISIBLE_DEVICES,
/// null when it is not set.
int count_gpus(const char* visible, int present);
int visible_gpus();  ///< of this process, found without loading CUDA

/// GPUs that the kernel reports, without any library of NVIDIA's: reads /sys/bus/pci and
/// /proc/driver/nvidia below `root`.
Gpus read_gpus(const std::filesystem::path& root = "/");

/// Adds the facts of NVIDIA's management library (memory, NVLink), if libnvidia-ml.so.1 can be
/// opened.
void add_nvml(Gpus& gpus);

/// All facts about the GPUs here; where neither the PCI bus nor NVIDIA's library can be asked,
/// those whose device files are there.
Gpus find_gpus();

}  // namespace convoy::machine
