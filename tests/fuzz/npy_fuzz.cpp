#include "convoy/formats/npy.h"
#include "convoy/formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view content) {
    const auto array = convoy::formats::parse_npy(content, "fuzz");
    size_t bytes = 0;
    convoy::internal_check(convoy::formats::safetensors_bytes(array.dtype, array.shape, bytes) &&
                               bytes == array.bytes.size(),
                           "fuzz", "{} bytes are not of the shape", array.bytes.size());
  });
}
