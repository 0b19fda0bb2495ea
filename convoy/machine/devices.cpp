#include "convoy/machine/devices.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/machine/machine.h"

namespace convoy::machine {
namespace {

bool is_gpu(const std::string& name) {
  constexpr std::string_view kPrefix = "nvidia";
  return name.size() > kPrefix.size() && name.starts_with(kPrefix) &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

}  // namespace

int count_gpus(const char* visible, const std::filesystem::path& dev) {
  int present = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dev, ignored)) {
    present += is_gpu(entry.path().filename().string());
  }
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

int resolve_num_ranks(std::string_view text) {
  int64_t number = 0;
  if (parse_number(text, number) && number >= 1 && number <= 4096) return static_cast<int>(number);
  const int gpus = count_gpus(std::getenv("CUDA_VISIBLE_DEVICES"));
  if (text == "gpu") {
    if (gpus > 0) return gpus;
    fail<UsageError>("machine",
                     "-n gpu: no NVIDIA GPU is visible; expected /dev/nvidia0 and a "
                     "CUDA_VISIBLE_DEVICES that does not hide it; try -n cpu");
  }
  if (text == "auto" && gpus > 0) return gpus;
  if (text == "auto" || text == "cpu") return std::max(1, machine_facts().cores);
  fail<UsageError>(
      "machine", "the number of ranks is '{}'; expected a number from 1 to 4096, auto, gpu or cpu",
      text);
}

}  // namespace convoy::machine
