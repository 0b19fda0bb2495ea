#include "convoy/tokenizers/tokenizer_parts.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view bytes) {
    using namespace convoy::tokenizers;  // NOLINT(google-build-using-namespace)
    const auto tokenizer = make_tokenizer(parts_of_json(convoy::parse_json(bytes, "fuzz"), "fuzz"));
    for (const std::string_view text :
         {std::string_view("The 12 dogs can't\n\n  say <s>na\xC3\xAFve"), bytes.substr(0, 300)}) {
      std::vector<int32_t> ids;
      tokenizer.encode(text, ids);
      tokenizer.decode(ids, false);
    }
  });
}
