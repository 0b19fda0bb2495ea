#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "convoy/machine/gpus.h"

// NVML's C interface as its documentation gives it; only what is asked here. It has not changed
// since its functions got these names.
namespace convoy::machine {
namespace {

using Device = void*;
constexpr int kSuccess = 0;
constexpr unsigned kMostNvlinks = 18;

struct PciInfo {
  char legacy_id[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char id[32];
};
struct Memory {
  unsigned long long total, free, used;
};

class Library {
 public:
  Library() : handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    started_ = handle_ != nullptr && call<int()>("nvmlInit_v2");
  }
  ~Library() {
    if (started_) call<int()>("nvmlShutdown");
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  bool started() const { return started_; }

  /// Calls a function of the library; false when it is not there or fails.
  template <class Signature, class... Args>
  bool call(const char* name, Args... args) const {
    auto* function = reinterpret_cast<Signature*>(::dlsym(handle_, name));
    return function != nullptr && function(args...) == kSuccess;
  }

 private:
  void* handle_;
  bool started_ = false;
};

/// Returns the kernel's name of a device, "0000:3b:00.0", for NVML's, "00000000:3B:00.0".
std::string kernel_name(const PciInfo& info) {
  std::string name(info.id, std::find(info.id, info.id + sizeof info.id, '\0'));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const size_t colon = name.find(':');
  return colon != std::string::npos && colon > 4 ? name.substr(colon - 4) : name;
}

size_t find_or_add(Gpus& gpus, const std::string& pci) {
  auto found = std::find_if(gpus.gpus.begin(), gpus.gpus.end(),
                            [&](const Gpu& gpu) { return gpu.pci == pci; });
  if (found == gpus.gpus.end()) {
    found = gpus.gpus.emplace(found);
    found->pci = pci;
  }
  return static_cast<size_t>(found - gpus.gpus.begin());
}

/// Number of links that are up, by the device at the other end.
std::map<std::string, int> nvlinks(const Library& library, Device device) {
  std::map<std::string, int> out;
  for (unsigned link = 0; link < kMostNvlinks; ++link) {
    unsigned active = 0;
    if (!library.call<int(Device, unsigned, unsigned*)>("nvmlDeviceGetNvLinkState", device, link,
                                                        &active) ||
        active == 0) {
      continue;
    }
    PciInfo remote{};
    library.call<int(Device, unsigned, PciInfo*)>("nvmlDeviceGetNvLinkRemotePciInfo_v2", device,
                                                  link, &remote);
    ++out[kernel_name(remote)];
  }
  return out;
}

/// Number of links to switches, which join all GPUs: those that end at no GPU.
int links_to_switches(const Gpus& gpus, const std::map<std::string, int>& remotes) {
  int links = 0;
  for (const auto& [pci, count] : remotes) {
    const bool is_gpu = std::any_of(gpus.gpus.begin(), gpus.gpus.end(),
                                    [&pci = pci](const Gpu& gpu) { return gpu.pci == pci; });
    if (!is_gpu) links += count;
  }
  return links;
}

void set_path(Gpus& gpus, size_t a, size_t b, const std::string& path) {
  const int low = static_cast<int>(std::min(a, b)), high = static_cast<int>(std::max(a, b));
  for (GpuLink& link : gpus.links) {
    if (link.a == low && link.b == high) {
      link.path = path;
      return;
    }
  }
  gpus.links.push_back({low, high, path});
}

}  // namespace

void add_nvml(Gpus& gpus) {
  const Library library;
  if (!library.started()) return;
  std::array<char, 96> text{};
  if (library.call<int(char*, unsigned)>("nvmlSystemGetDriverVersion", text.data(),
                                         static_cast<unsigned>(text.size()))) {
    gpus.driver = text.data();
  }
  unsigned count = 0;
  library.call<int(unsigned*)>("nvmlDeviceGetCount_v2", &count);
  std::map<size_t, std::map<std::string, int>> links;
  for (unsigned i = 0; i < count; ++i) {
    Device device = nullptr;
    PciInfo pci{};
    if (!library.call<int(unsigned, Device*)>("nvmlDeviceGetHandleByIndex_v2", i, &device) ||
        !library.call<int(Device, PciInfo*)>("nvmlDeviceGetPciInfo_v3", device, &pci)) {
      continue;
    }
    const size_t index = find_or_add(gpus, kernel_name(pci));
    Gpu& gpu = gpus.gpus[index];
    if (library.call<int(Device, char*, unsigned)>("nvmlDeviceGetName", device, text.data(),
                                                   static_cast<unsigned>(text.size()))) {
      gpu.name = text.data();
    }
    Memory memory{};
    if (library.call<int(Device, Memory*)>("nvmlDeviceGetMemoryInfo", device, &memory)) {
      gpu.memory_bytes = static_cast<int64_t>(memory.total);
      gpu.free_bytes = static_cast<int64_t>(memory.free);
    }
    links[index] = nvlinks(library, device);
    for (const auto& [remote, number] : links[index]) gpu.nvlinks += number;
  }
  for (const auto& [a, remotes] : links) {
    for (const auto& [b, others] : links) {
      if (b <= a) continue;
      const int switched =
          std::min(links_to_switches(gpus, remotes), links_to_switches(gpus, others));
      if (auto direct = remotes.find(gpus.gpus[b].pci); direct != remotes.end()) {
        set_path(gpus, a, b, "NVLink x" + std::to_string(direct->second));
      } else if (switched > 0) {
        set_path(gpus, a, b, "NVLink switch x" + std::to_string(switched));
      }
    }
  }
  if (!gpus.gpus.empty()) gpus.why_none.clear();
}

}  // namespace convoy::machine
