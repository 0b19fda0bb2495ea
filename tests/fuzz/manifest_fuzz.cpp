#include "convoy/checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using convoy::checkpoint::Manifest;
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    const auto manifest = Manifest::parse(text, "fuzz");
    const auto again = Manifest::parse(manifest.to_text(), "fuzz");
    convoy::internal_check(again.sums() == manifest.sums() && again.bytes() == manifest.bytes(),
                           "fuzz", "what was read is not what is written");
  });
}
