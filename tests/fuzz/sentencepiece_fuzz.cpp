#include "convoy/tokenizers/tokenizer_parts.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return convoy::fuzz::expect_plain_errors(data, size, [](std::string_view bytes) {
    using namespace convoy::tokenizers;  // NOLINT(google-build-using-namespace)
    static const convoy::Json config = convoy::Json::object();
    const auto tokenizer =
        make_tokenizer(parts_of_sentencepiece(bytes, "fuzz", JsonField(config, "config: ")));
    for (const std::string_view text :
         {std::string_view("The dogs \xEF\xAC\x81 \xE6\x97\xA5"), bytes.substr(0, 300)}) {
      std::vector<int32_t> ids;
      tokenizer.encode(text, ids);
      tokenizer.decode(ids, false);
    }
  });
}
