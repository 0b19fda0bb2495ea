#include "convoy/bench/peaks.h"

#include <dlfcn.h>

#include <array>

namespace convoy::bench {

namespace {

struct Entry {
  std::string_view part;  // of the name; the first that fits counts
  Peaks peaks;
};

// Peaks from NVIDIA's data sheets and white papers. Figures with sparsity are halved. GeForce cards
// have the figures with fp32 sums, as fp16 sums are twice as fast there.
constexpr Entry kTable[] = {
    // Blackwell architecture data sheets: GB200 NVL72 and HGX B200, one GPU's share.
    {"GB200", {2500, 2500, 1250, 80}},
    {"B200", {2250, 2250, 1125, 75}},
    // H200 data sheet: SXM, NVL. GH200 data sheet.
    {"GH200", {989.5, 989.5, 494.7, 67}},
    {"H200 NVL", {835.5, 835.5, 417.5, 60}},
    {"H200", {989.5, 989.5, 494.7, 67}},
    // H100 data sheet: SXM, NVL; the PCIe card is in its first edition (2022).
    {"H100 NVL", {835.5, 835.5, 417.5, 60}},
    {"H100 PCIe", {756, 756, 378, 51}},
    {"H100", {989.5, 989.5, 494.7, 67}},
    {"H800", {989.5, 989.5, 494.7, 67}},
    {"H20", {148, 148, 74, 44}},
    // L40S, L40 and L4 data sheets.
    {"L40S", {362.05, 362.05, 183, 91.6}},
    {"L40", {181.05, 181.05, 90.5, 90.5}},
    {"L4", {121, 121, 60, 30.3}},
    // A100, A800, A40, A30, A10 data sheets; A10G: half of A10's figures with sparsity.
    {"A100", {312, 312, 156, 19.5}},
    {"A800", {312, 312, 156, 19.5}},
    {"RTX A6000", {154.8, 154.8, 77.4, 38.7}},  // RTX A6000 data sheet
    {"A40", {149.7, 149.7, 74.8, 37.4}},
    {"A30", {165, 165, 82, 10.3}},
    {"A10G", {70, 70, 35, 31.5}},
    {"A10", {125, 125, 62.5, 31.2}},
    // V100 and T4 data sheets: no bf16, no tf32.
    {"V100-PCIE", {112, 0, 0, 14}},
    {"V100", {125, 0, 0, 15.7}},
    {"Tesla T4", {65, 0, 0, 8.1}},
    // White papers of the architectures: GA102, Ada, RTX Blackwell; RTX 6000 Ada data sheet.
    {"RTX 6000 Ada", {364.2, 364.2, 182.1, 91.1}},
    {"RTX 5090", {209.5, 209.5, 104.8, 104.8}},
    {"RTX 4090", {165.2, 165.2, 82.6, 82.6}},
    {"RTX 4080", {97.5, 97.5, 48.7, 48.7}},
    {"RTX 3090", {71, 71, 35.6, 35.6}},
    {"RTX 3080", {59.5, 59.5, 29.8, 29.8}},
};

}  // namespace

std::optional<Peaks> peaks_of(std::string_view name) {
  // The next kind of a card has the same name with a word behind it, and other numbers.
  for (const std::string_view other : {" Ti", " D", " SUPER", " Laptop"}) {
    if (name.find("GeForce") != name.npos && name.find(other) != name.npos) return std::nullopt;
  }
  for (const auto& [part, peaks] : kTable) {
    if (name.find(part) != name.npos) return peaks;
  }
  return std::nullopt;
}

double peak_tflops(const Peaks& peaks, const options::TrainingArguments& arguments) {
  if (arguments.bf16) return peaks.bf16;
  if (arguments.fp16) return peaks.fp16;
  return arguments.tf32 && peaks.tf32 > 0 ? peaks.tf32 : peaks.fp32;
}

std::string device_name(at::Device device) {
  if (!device.is_cuda()) return "";
  using GetName = int (*)(char*, int, int);  // part of the driver's interface
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  const auto get_name =
      driver == nullptr ? nullptr : reinterpret_cast<GetName>(::dlsym(driver, "cuDeviceGetName"));
  std::array<char, 256> text{};
  if (get_name == nullptr || get_name(text.data(), text.size() - 1, device.index()) != 0) return "";
  return text.data();
}

}  // namespace convoy::bench
