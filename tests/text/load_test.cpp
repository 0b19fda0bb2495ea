#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "convoy/base/error.h"
#include "tests/text/text_testing.h"

namespace convoy::text {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kTiny = R"({
  "version": "1.0",
  "added_tokens": [{"id": 6, "content": "<end>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
  "post_processor": null,
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "unk_token": null,
    "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4, "\u0120": 5},
    "merges": ["a b", "ab c"]}
})";

Json tiny() {
  return Json::parse(kTiny);
}

std::string message_of(const std::string& name, const std::string& content) {
  const Folder folder;
  const auto file = folder.write(name, content);
  try {
    Tokenizer::load(file);
  } catch (const FileError& error) {
    return error.what();
  }
  return "loaded";
}

std::string message_of(const Json& json) {
  return message_of("tokenizer.json", json.dump());
}

TEST(Load, TellsWhichFilesOfAFolderItWouldOpen) {
  for (const auto& name : tokenizer_file_names()) {
    const Folder folder;
    EXPECT_FALSE(holds_tokenizer(folder.path()));
    folder.write(name, "{}");
    const bool beside = name == "merges.txt" || name == "special_tokens_map.json" ||
                        name == "tokenizer_config.json" || name == "added_tokens.json";
    EXPECT_EQ(holds_tokenizer(folder.path()), !beside) << name;
  }
  const auto names = tokenizer_file_names();
  for (const char* name : {"tokenizer.json", "spiece.model", "vocab.txt", "merges.txt"}) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
}

TEST(Load, ReadsATokenizerJson) {
  const Folder folder;
  folder.write("tokenizer.json", kTiny);
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<end>"}, "pad_token": "c"})");
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_THAT(ids_of(tokenizer, "abc ab<end>ba"), ElementsAre(4, 5, 3, 6, 1, 0));
  EXPECT_EQ(tokenizer.vocab_size(), 7);
  EXPECT_EQ(tokenizer.id_of("abc"), 4);
  EXPECT_EQ(tokenizer.id_of("abcd"), std::nullopt);
  EXPECT_EQ(tokenizer.token(5), "\xC4\xA0");
  EXPECT_EQ(tokenizer.special_ids().eos, 6);
  EXPECT_EQ(tokenizer.special_ids().pad, 2);
  EXPECT_EQ(tokenizer.special_ids().bos, std::nullopt);
  EXPECT_EQ(tokenizer.model_max_length(), INT64_MAX);
  EXPECT_EQ(tokenizer.files().size(), 2u);
  const std::vector<int32_t> ids{4, 5, 6};
  EXPECT_EQ(tokenizer.decode(ids), "abc ");
  EXPECT_EQ(tokenizer.decode(ids, false), "abc <end>");
}

TEST(Load, KnowsSpecialTokensOfFilesThatDoNotNameThem) {
  const Folder gpt2;
  gpt2.write("vocab.json", R"({"a": 0, "<|endoftext|>": 1, "b": 2})");
  gpt2.write("merges.txt", "#version: 0.2\n");
  SpecialIds ids = Tokenizer::load(gpt2.path()).special_ids();
  EXPECT_EQ(ids.bos, 1);
  EXPECT_EQ(ids.eos, 1);
  EXPECT_EQ(ids.pad, std::nullopt);
  gpt2.write("special_tokens_map.json", R"({"pad_token": "b", "eos_token": {"content": "a"}})");
  gpt2.write("tokenizer_config.json", R"({"eos_token": "b", "add_bos_token": true})");
  const Tokenizer tokenizer = Tokenizer::load(gpt2.path());
  EXPECT_EQ(tokenizer.special_ids().eos, 2);
  EXPECT_EQ(tokenizer.special_ids().pad, 2);
  EXPECT_THAT(ids_of(tokenizer, "ab<|endoftext|>"), ElementsAre(1, 0, 2, 1));
  EXPECT_THAT(ids_of(tokenizer, "ab", false), ElementsAre(0, 2));

  const Folder bert;
  bert.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\n");
  const Tokenizer words = Tokenizer::load(bert.path());
  EXPECT_EQ(words.special_ids().pad, 0);
  EXPECT_EQ(words.special_ids().unk, 1);
  EXPECT_THAT(ids_of(words, "LOWER slow"), ElementsAre(2, 4, 5, 1, 3));
  bert.write("tokenizer_config.json", R"({"do_lower_case": false, "model_max_length": 512})");
  EXPECT_THAT(ids_of(Tokenizer::load(bert.path()), "LOWER low"), ElementsAre(2, 1, 4, 3));
  EXPECT_EQ(Tokenizer::load(bert.path()).model_max_length(), 512);
  bert.write("tokenizer_config.json", R"({"model_max_length": 1000000000000000019884624838656})");
  EXPECT_EQ(Tokenizer::load(bert.path()).model_max_length(), INT64_MAX);
}

TEST(Load, FingerprintsTellWhatGivesOtherIds) {
  const auto fingerprint = [](const Json& json) {
    const Folder folder;
    return Tokenizer::load(folder.write("tokenizer.json", json.dump(3))).fingerprint();
  };
  const std::string original = fingerprint(tiny());
  EXPECT_EQ(original.size(), 16u);
  Json same = tiny();
  same["model"]["merges"] = Json::parse(R"([["a", "b"], ["ab", "c"]])");
  same["truncation"] = {{"max_length", 3}};
  EXPECT_EQ(fingerprint(same), original);
  for (const auto& [place, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"/model/merges", {"a b"}},
           {"/model/ignore_merges", true},
           {"/model/vocab/d", 7},
           {"/pre_tokenizer/add_prefix_space", true},
           {"/added_tokens/0/lstrip", true},
           {"/normalizer", {{"type", "NFC"}}}}) {
    Json other = tiny();
    other[Json::json_pointer(place)] = value;
    EXPECT_NE(fingerprint(other), original) << place;
  }
}

TEST(Load, CountsWhatIsNotUtf8) {
  const Folder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", kTiny));
  std::vector<int32_t> ids;
  EXPECT_EQ(tokenizer.encode("ab\xFF c\xE6\x97", ids), 2u);
  EXPECT_THAT(ids, ElementsAre(3, 5, 2)) << "no token for the bytes of U+FFFD here";
}

TEST(Load, RefusesByName) {
  const auto with = [](const char* place, const Json& value) {
    Json json = tiny();
    json[Json::json_pointer(place)] = value;
    return message_of(json);
  };
  EXPECT_THAT(with("/model/type", "WordLevel"),
              HasSubstr("tokenizer.json: model.type is \"WordLevel\"; expected BPE, WordPiece or "
                        "Unigram"));
  const auto unigram = [&](const char* vocabulary, const Json& unk_id) {
    Json json = tiny();
    json["model"] = {{"type", "Unigram"}, {"vocab", Json::parse(vocabulary)}, {"unk_id", unk_id}};
    return message_of(json);
  };
  EXPECT_THAT(unigram(R"([["a", -1], ["a", -2]])", 0),
              HasSubstr("model.vocab[1] is [\"a\",-2]; expected a token that is not there yet"));
  EXPECT_THAT(unigram(R"([["a", "b"]])", 0), HasSubstr("model.vocab[0] is [\"a\",\"b\"]"));
  EXPECT_THAT(unigram(R"([["a", -1]])", 1), HasSubstr("model.unk_id is 1"));
  EXPECT_THAT(unigram(R"([["a", -1]])", nullptr), HasSubstr("model.unk_id is null"));
  EXPECT_THAT(unigram("[]", 0), HasSubstr("model.unk_id is 0"));
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "AAAA"}}),
              HasSubstr("precompiled_charsmap is damaged"));
  EXPECT_THAT(with("/normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "?"}}),
              HasSubstr("expected bytes as base64"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("model.dropout is 0.1; expected null"));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("model.byte_fallback is true"));
  EXPECT_THAT(with("/model/new_thing", 1), HasSubstr("model.new_thing is 1; expected no such key"));
  EXPECT_THAT(with("/normalizer", {{"type", "Nmt"}}), HasSubstr("normalizer.type is \"Nmt\""));
  EXPECT_THAT(with("/pre_tokenizer",
                   {{"type", "Sequence"}, {"pretokenizers", {{{"type", "UnicodeScripts"}}}}}),
              HasSubstr("pre_tokenizer.pretokenizers[0].type is \"UnicodeScripts\""));
  EXPECT_THAT(with("/added_tokens/0/single_word", true),
              HasSubstr("added_tokens[0].single_word is true"));
  EXPECT_THAT(with("/decoder", {{"type", "CTC"}}), HasSubstr("decoder.type is \"CTC\""));
  EXPECT_THAT(with("/post_processor", {{"type", "Other"}}), HasSubstr("post_processor.type is"));
  const auto split = [&](const char* pattern) {
    return with("/pre_tokenizer", {{"type", "Split"},
                                   {"pattern", {{"Regex", pattern}}},
                                   {"behavior", "Isolated"},
                                   {"invert", false}});
  };
  EXPECT_THAT(split("\\w+"), AllOf(HasSubstr("pre_tokenizer.pattern.Regex"), HasSubstr("'\\w'")));
  EXPECT_THAT(split("[a&&b]"), HasSubstr("'&&'"));
  EXPECT_THAT(split("\\p{Han}"), HasSubstr("'\\p{Han}'"));
  EXPECT_THAT(split("a{1,2}+"), HasSubstr("'}+'"));
  EXPECT_THAT(split("(a"), HasSubstr("the regular expression '(a' is wrong"));
}

TEST(Load, NamesFileKeyAndValueOfMistakes) {
  const auto with = [](const char* place, const Json& value) {
    Json json = tiny();
    json[Json::json_pointer(place)] = value;
    return message_of(json);
  };
  EXPECT_THAT(with("/model/vocab/b", 0), HasSubstr("model.vocab: the id of 'b' is 0"));
  EXPECT_THAT(with("/model/vocab/b", -1), HasSubstr("the id of 'b' is -1"));
  EXPECT_THAT(with("/model/vocab/b", 1e300), HasSubstr("the id of 'b' is 1e+300"));
  EXPECT_THAT(with("/model/vocab/b", 4000000000u), HasSubstr("the id of 'b' is 4000000000"));
  EXPECT_THAT(with("/model/merges", {"a b c"}), HasSubstr("model.merges[0] is \"a b c\""));
  EXPECT_THAT(with("/model/merges", {"a z"}),
              HasSubstr("merge 0 is 'a z', but 'z' is not in the vocabulary"));
  EXPECT_THAT(with("/model/merges", {"b c"}), HasSubstr("'bc' is not in the vocabulary"));
  EXPECT_THAT(with("/model/unk_token", "<unk>"), HasSubstr("unk_token '<unk>' is not in the"));
  EXPECT_THAT(with("/added_tokens/0/id", 3),
              HasSubstr("added_tokens[0].id is 3; expected another"));
  EXPECT_THAT(with("/added_tokens/0/content", "ab"), HasSubstr("expected 3, as in the vocabulary"));
  EXPECT_THAT(
      with("/post_processor", {{"type", "BertProcessing"}, {"sep", {"x", 99}}, {"cls", {"a", 0}}}),
      HasSubstr("no token has 99"));
  EXPECT_THAT(message_of("tokenizer.json", "{"), HasSubstr("tokenizer.json is not valid JSON"));
  EXPECT_THAT(message_of("tokenizer.json", "[]"), HasSubstr("expected an object"));
  Json deep = Json::array();
  for (int i = 0; i < 100; ++i) deep = Json::array({deep});
  EXPECT_THAT(with("/decoder", deep), HasSubstr("nested more than 32 deep"));
}

TEST(Load, NamesWhatIsMissing) {
  const Folder folder;
  const auto message = [&](const std::filesystem::path& path) {
    try {
      Tokenizer::load(path);
    } catch (const FileError& error) {
      return std::string(error.what());
    }
    return std::string("loaded");
  };
  EXPECT_THAT(message(folder.path()), HasSubstr("holds no tokenizer"));
  EXPECT_THAT(message(folder.path() / "nothing"), HasSubstr("there is no tokenizer"));
  folder.write("vocab.json", R"({"a": 0})");
  EXPECT_THAT(message(folder.path()), HasSubstr("there is no"));
  folder.write("merges.txt", "#version: 0.2\na\n");
  EXPECT_THAT(message(folder.path()), HasSubstr("merges.txt:2: 'a' is no merge"));
  folder.write("merges.txt", "#version: 0.2\n");
  EXPECT_EQ(message(folder.path()), "loaded");
  folder.write("tokenizer_config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  EXPECT_THAT(message(folder.path()), HasSubstr("tokenizer_class is \"RobertaTokenizer\""));
  EXPECT_THAT(message_of("tokenizer.model", "IQ== 0\nIg== 1\n"),
              AllOf(HasSubstr("is a tiktoken file"), HasSubstr("tiktoken_to_json.py")));
  EXPECT_THAT(message_of("tokenizer.model", "nonsense"), HasSubstr("is no SentencePiece model"));
}

TEST(Load, ThreadsShareATokenizer) {
  const Folder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", kTiny));
  std::string text;
  for (int i = 0; i < 3000; ++i) text += i % 7 == 0 ? " abc" : i % 3 == 0 ? "ab c" : "b<end> ";
  const std::vector<int32_t> expected = ids_of(tokenizer, text);
  std::vector<std::thread> threads;
  std::vector<int> good(4);
  for (int& count : good) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) count += static_cast<int>(ids_of(tokenizer, text) == expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(good, ElementsAre(20, 20, 20, 20));
}

TEST(Load, IdsThatNoTokenHasAreRefused) {
  const Folder folder;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", kTiny));
  for (const int32_t id : {-1, 7, INT32_MAX}) {
    EXPECT_THROW(tokenizer.decode(std::vector<int32_t>{id}), UsageError);
    EXPECT_THROW(tokenizer.token(id), UsageError);
  }
}

TEST(Load, ARegularExpressionThatNeverEndsIsGivenUp) {
  const Folder folder;
  Json json = tiny();
  json["pre_tokenizer"] = {{"type", "Split"},
                           {"pattern", {{"Regex", "(?:a+)+(?:a+)+(?:a+)+(?:a+)+[xyz]"}}},
                           {"behavior", "Isolated"}};
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", json.dump()));
  std::vector<int32_t> ids;
  EXPECT_THROW(tokenizer.encode(std::string(5000, 'a'), ids), UsageError);
}

}  // namespace
}  // namespace convoy::text
