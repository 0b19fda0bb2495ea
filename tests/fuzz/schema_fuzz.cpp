#include "convoy/formats/schema.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    using convoy::formats::Schema;
    const auto json = Schema::from_json(text, "fuzz").to_json();
    convoy::internal_check(Schema::from_json(json, "again").to_json() == json, "fuzz",
                           "a schema changed on its way through its own text");
  });
}
