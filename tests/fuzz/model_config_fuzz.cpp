#include "convoy/models/language_model.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view text) {
    using convoy::models::read_model_config;
    const auto json = read_model_config(convoy::parse_json(text, "fuzz"), "fuzz")->to_json();
    convoy::internal_check(read_model_config(json, "again")->to_json() == json, "fuzz",
                           "a config changed on its way through its own JSON");
  });
}
