#include "convoy/formats/schema.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    convoy::formats::Schema::from_pbtxt(text, "fuzz").to_json();
  });
}
