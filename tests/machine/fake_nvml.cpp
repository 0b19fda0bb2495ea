#include <cstdio>
#include <cstring>

// Stands in for NVIDIA's management library: four GPUs. 0 and 1 are joined by two NVLinks of their
// own, 2 and 3 by four links each to a switch.
namespace {

struct Pci {
  char legacy_id[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char id[32];
};
struct Memory {
  unsigned long long total, free, used;
};

constexpr int kFailed = 999;
constexpr unsigned kSwitch = 0xEE;
int devices[4] = {0, 1, 2, 3};

int index_of(void* device) {
  return *static_cast<int*>(device);
}

void name(Pci* pci, unsigned bus) {
  std::snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", bus);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlSystemGetDriverVersion(char* text, unsigned size) {
  return std::snprintf(text, size, "999.1") > 0 ? 0 : kFailed;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 4;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = &devices[index];
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, Pci* pci) {
  name(pci, 0xA0 + static_cast<unsigned>(index_of(device)));
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::snprintf(text, size, "Fake %d", index_of(device));
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, Memory* memory) {
  *memory = {80ULL << 30, 70ULL << 30, 10ULL << 30};
  return 0;
}
int nvmlDeviceGetNvLinkState(void* device, unsigned link, unsigned* active) {
  if (link >= 12) return kFailed;
  *active = link < (index_of(device) < 2 ? 2u : 4u);
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, Pci* pci) {
  const int index = index_of(device);
  name(pci, index < 2 ? 0xA0 + static_cast<unsigned>(1 - index) : kSwitch);
  return 0;
}
}
