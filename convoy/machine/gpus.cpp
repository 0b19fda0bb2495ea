#include "convoy/machine/gpus.h"

#include <algorithm>
#include <cstdlib>

#include "convoy/base/fake_gpu.h"
#include "convoy/base/text.h"
#include "convoy/machine/system_files.h"

namespace convoy::machine {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kNvidia = 0x10de;
constexpr int64_t kDisplay = 0x03;

bool is_gpu(const fs::path& device) {
  return leading_number(line_in(device / "vendor"), 0) == kNvidia &&
         leading_number(line_in(device / "class"), 0) >> 16 == kDisplay;
}

bool is_device_file(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

/// Version of the driver: the first word like a version in "NVRM version: NVIDIA UNIX x86_64 Kernel
/// Module 580.82.07 Wed ...".
std::string driver_version(const fs::path& file) {
  for (const std::string& word : split(value_in(file, "NVRM version", ':'), ' ')) {
    if (word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos) {
      return word;
    }
  }
  return "";
}

/// Bridges between the root complex and a device: "pci0000:00", "0000:00:01.0", ...
std::vector<std::string> bridges(const fs::path& device) {
  std::error_code failed;
  const auto place = fs::canonical(device, failed);
  if (failed) return {};
  std::vector<std::string> out;
  for (const auto& part : place.parent_path()) {
    if (part.string().starts_with("pci") || !out.empty()) out.push_back(part.string());
  }
  return out;
}

std::string path_between(const fs::path& devices, const Gpu& a, const Gpu& b) {
  const auto left = bridges(devices / a.pci), right = bridges(devices / b.pci);
  const size_t most = std::min(left.size(), right.size());
  size_t common = 0;
  while (common < most && left[common] == right[common]) ++common;
  if (common > 1) return "PCIe switch";
  if (common == 1) return "same PCIe root";
  if (a.numa_node >= 0 && b.numa_node >= 0) {
    return a.numa_node == b.numa_node ? "same NUMA node" : "between NUMA nodes";
  }
  return "through the processor";
}

}  // namespace

int device_files(const fs::path& dev) {
  int present = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(dev, ignored)) {
    present += is_device_file(entry.path().filename().string());
  }
  return present;
}

int count_gpus(const char* visible, int present) {
  if (visible == nullptr) return present;
  // CUDA reads the list up to the first entry that names no device; others are names such as
  // GPU-8f3c.
  int seen = 0;
  for (const std::string& part : split(visible, ',')) {
    const std::string name = trim(part);
    int64_t index = 0;
    const bool is_number = parse_number(name, index);
    if (name.empty() || (is_number && (index < 0 || index >= present))) break;
    if (!is_number && !name.starts_with("GPU-") && !name.starts_with("MIG-")) break;
    ++seen;
  }
  return std::min(seen, present);
}

int visible_gpus() {
  const auto fake = fake_gpus();
  return count_gpus(std::getenv("CUDA_VISIBLE_DEVICES"),
                    fake ? fake->number : device_files("/dev"));
}

Gpus find_gpus() {
  Gpus out = read_gpus();
  add_nvml(out);
  out.num_visible = visible_gpus();
  if (out.gpus.empty() && out.num_visible > 0) {
    out.gpus.resize(static_cast<size_t>(out.num_visible));
    out.why_none.clear();
  }
  return out;
}

Gpus read_gpus(const fs::path& root) {
  Gpus out;
  const auto devices = root / "sys/bus/pci/devices", driver = root / "proc/driver/nvidia";
  out.driver = driver_version(driver / "version");
  for (const std::string& pci : names_in(devices)) {
    const auto device = devices / pci;
    if (!is_gpu(device)) continue;
    Gpu gpu;
    gpu.pci = pci;
    gpu.name = value_in(driver / "gpus" / pci / "information", "Model", ':');
    gpu.numa_node = static_cast<int>(leading_number(line_in(device / "numa_node"), -1));
    gpu.pcie_lanes = static_cast<int>(leading_number(line_in(device / "current_link_width"), 0));
    gpu.most_pcie_lanes = static_cast<int>(leading_number(line_in(device / "max_link_width"), 0));
    gpu.pcie_speed = line_in(device / "max_link_speed");
    out.gpus.push_back(std::move(gpu));
  }
  for (size_t b = 1; b < out.gpus.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      out.links.push_back({static_cast<int>(a), static_cast<int>(b),
                           path_between(devices, out.gpus[a], out.gpus[b])});
    }
  }
  if (out.gpus.empty()) {
    out.why_none = fs::exists(devices) ? "there is no NVIDIA GPU on the PCI bus"
                                       : "the PCI bus cannot be seen from here";
  }
  return out;
}

}  // namespace convoy::machine
