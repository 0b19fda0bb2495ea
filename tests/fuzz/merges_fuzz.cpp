#include "convoy/tokenizers/tokenizer_parts.h"
#include "tests/fuzz/fuzz.h"

/// The input is a merges.txt, a vocab.txt, and a text.
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace convoy::tokenizers;  // NOLINT(google-build-using-namespace)
  using convoy::Json;
  static const Json config = Json::object();
  const auto use = [](std::string_view bytes, const Json& json) {
    const auto tokenizer = make_tokenizer(parts_of_json(json, "fuzz"));
    std::vector<int32_t> ids;
    tokenizer.encode(bytes.substr(0, 1000), ids);
    tokenizer.decode(ids, false);
  };
  convoy::fuzz::expect_plain_errors(data, size, [&](std::string_view bytes) {
    use(bytes, json_of_word_list(bytes, "vocab.txt", JsonField(config, "config: ")));
  });
  return convoy::fuzz::expect_plain_errors(data, size, [&](std::string_view bytes) {
    static constexpr std::string_view kVocabulary =
        R"({"a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4, "abc": 5, "\u0120": 6, "\u0120a": 7})";
    use(bytes, json_of_merges(kVocabulary, "vocab.json", bytes, "merges.txt",
                              JsonField(config, "config: ")));
  });
}
