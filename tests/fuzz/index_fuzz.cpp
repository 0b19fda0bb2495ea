#include "convoy/formats/safetensors_folder.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    for (const auto& [name, file] : convoy::formats::parse_safetensors_index(text, "fuzz")) {
      convoy::internal_check(file.find('/') == std::string::npos, "fuzz", "{} is elsewhere", file);
    }
  });
}
