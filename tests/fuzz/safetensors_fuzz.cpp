#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "convoy/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view bytes) {
    static const int memory = memfd_create("fuzz", 0);
    convoy::internal_check(
        memory >= 0 && ftruncate(memory, 0) == 0 &&
            pwrite(memory, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "fuzz", "no memory for a file");
    const convoy::formats::SafetensorsFile file("/proc/self/fd/" + std::to_string(memory));
    volatile std::byte sum{};
    for (const auto& [name, entry] : file.entries()) {
      const auto content = file.bytes(name);
      if (!content.empty()) sum = content.front() ^ content.back();
    }
  });
}
