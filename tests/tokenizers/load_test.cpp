#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>

#include "convoy/base/base64.h"
#include "convoy/base/error.h"
#include "convoy/tokenizers/models/unigram.h"
#include "tests/tokenizers/text_testing.h"

namespace convoy::tokenizers {
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

std::string message_at(const std::filesystem::path& path) {
  try {
    Tokenizer::load(path);
  } catch (const FileError& error) {
    return error.what();
  }
  return "loaded";
}

std::string message_of(const std::string& name, const std::string& content) {
  const Folder folder;
  return message_at(folder.write(name, content));
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
  EXPECT_THAT(ids_of(tokenizer, "abb ab<end>ba"), ElementsAre(3, 1, 5, 3, 6, 1, 0));
  EXPECT_THAT(ids_of(tokenizer, "abc"), ElementsAre(3, 2)) << "the settings make c a special token";
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

/// As slow tokenizers of transformers save what was added to a vocabulary.
TEST(Load, ReadsTokensThatWereAddedToAVocabulary) {
  const Folder gpt2;
  gpt2.write("vocab.json", R"({"a": 0, "<|endoftext|>": 1, "b": 2, "<": 3, "t": 4, ">": 5})");
  gpt2.write("merges.txt", "#version: 0.2\n");
  const std::string before = Tokenizer::load(gpt2.path()).fingerprint();
  EXPECT_THAT(ids_of(Tokenizer::load(gpt2.path()), "a<t>"), ElementsAre(0, 3, 4, 5));
  gpt2.write("added_tokens.json", R"({"<t>": 10, "<pad>": 11})");
  gpt2.write("special_tokens_map.json", R"({"pad_token": "<pad>", "bos_token": "<t>"})");
  gpt2.write("tokenizer_config.json", R"({"add_bos_token": true, "bos_token": "<t>"})");
  const Tokenizer tokenizer = Tokenizer::load(gpt2.path());
  EXPECT_THAT(ids_of(tokenizer, "a<t>b<pad>"), ElementsAre(10, 0, 10, 2, 11));
  EXPECT_EQ(tokenizer.vocab_size(), 12);
  EXPECT_EQ(tokenizer.special_ids().pad, 11);
  EXPECT_NE(tokenizer.fingerprint(), before);
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 10, 2, 11}), "ab");
  EXPECT_EQ(tokenizer.decode(std::vector<int32_t>{0, 10, 2, 11}, false), "a<t>b<pad>");
  const auto has_file = [](const Tokenizer& one, const char* name) {
    return std::any_of(one.files().begin(), one.files().end(),
                       [&](const TokenizerFile& file) { return file.name == name; });
  };
  EXPECT_TRUE(has_file(tokenizer, "added_tokens.json"));
  // What tokenizer_config.json lists counts alone.
  gpt2.write("tokenizer_config.json", R"({"added_tokens_decoder": {"7": {"content": "<pad>"},
      "8": {"content": "<t>"}}})");
  EXPECT_THAT(ids_of(Tokenizer::load(gpt2.path()), "<pad><t>"), ElementsAre(7, 8));

  const Folder bert;
  bert.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nlow\n##er\n");
  bert.write("added_tokens.json", R"({"[X]": 6, "New": 7})");
  bert.write("tokenizer_config.json", R"({"additional_special_tokens": ["[X]"]})");
  EXPECT_THAT(ids_of(Tokenizer::load(bert.path()), "LOW[X]new lower", false),
              ElementsAre(4, 6, 7, 4, 5));

  for (const auto& [content, problem] : std::initializer_list<std::pair<const char*, const char*>>{
           {R"({"x": "y"})", "added_tokens.json: the id of 'x' is \"y\"; expected a whole number"},
           {R"({"x": -1})", "the id of 'x' is -1"},
           {R"({"x": 4})", "expected another: 'low' has it"},
           {R"({"low": 9})", "expected 4, as in the vocabulary"},
           {R"(["x"])", "expected an object of ids by token"}}) {
    bert.write("added_tokens.json", content);
    EXPECT_THAT(message_at(bert.path()), HasSubstr(problem));
  }
}

/// A run keeps a tokenizer where the next one finds it.
TEST(Load, TellsTheNamesThatItsFilesAreFoundBy) {
  const auto names = [](const std::filesystem::path& file) {
    std::vector<std::string> out;
    const Tokenizer tokenizer = Tokenizer::load(file);
    for (const TokenizerFile& one : tokenizer.files()) out.push_back(one.name);
    return out;
  };
  const Folder folder;
  EXPECT_THAT(names(folder.write("my_own.json", kTiny)), ElementsAre("tokenizer.json"));
  EXPECT_THAT(names(folder.write("bert-vocab.txt", "[UNK]\na\n")), ElementsAre("vocab.txt"));
  const Json models = fixture("sentencepiece.json");
  const auto bytes = from_base64(models[0]["files"]["tokenizer.model"].get<std::string>()).value();
  EXPECT_THAT(names(folder.write("mine.model", bytes)), ElementsAre("tokenizer.model"));
  EXPECT_THAT(names(folder.write("spiece.model", bytes)), ElementsAre("spiece.model"));
  folder.write("vocab.json", R"({"a": 0})");
  const auto merges = folder.write("merges.txt", "");
  folder.write("tokenizer_config.json", "{}");
  EXPECT_THAT(names(merges), ElementsAre("vocab.json", "merges.txt", "tokenizer_config.json"));
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
           {"/model/vocab", {{"a", 1}, {"b", 0}, {"c", 2}, {"ab", 3}, {"abc", 4}, {"\u0120", 5}}},
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
  EXPECT_THAT(with("/model/type", "CharLevel"),
              HasSubstr("tokenizer.json: model.type is \"CharLevel\"; expected BPE, WordPiece, "
                        "WordLevel or Unigram"));
  EXPECT_THAT(with("/model", {{"type", "WordLevel"}, {"vocab", {{"a", 0}}}, {"unk_token", "?"}}),
              HasSubstr("unk_token '?' is not in the vocabulary"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Punctuation"}, {"behavior", "Swallowed"}}),
              HasSubstr("behavior is \"Swallowed\"; expected Removed, Isolated"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Digits"}, {"individual_digits", 1}}),
              HasSubstr("individual_digits is 1"));
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
  EXPECT_THAT(unigram(R"([["", 0.0]])", 0), HasSubstr("model has no piece for text"));
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
              HasSubstr("added_tokens[0].id is 3; expected 6, which Hugging Face"));
  EXPECT_THAT(with("/added_tokens/0/id", 9),
              HasSubstr("added_tokens[0].id is 9; expected 6, which Hugging Face's tokenizers give "
                        "'<end>', as the next behind the vocabulary"));
  const auto two = [](int64_t first, int64_t second) {
    Json json = tiny();
    json["added_tokens"] = {{{"id", 3}, {"content", "ab"}},
                            {{"id", first}, {"content", "<x>"}},
                            {{"id", second}, {"content", "<y>"}}};
    return message_of(json);
  };
  EXPECT_EQ(two(6, 7), "loaded");
  EXPECT_THAT(two(7, 6), HasSubstr("added_tokens[1].id is 7; expected 6, which Hugging Face"));
  EXPECT_THAT(two(6, 8), HasSubstr("added_tokens[2].id is 8; expected 7, which Hugging Face"));
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

TEST(Load, AnEmptyPieceIsPassedOver) {
  const Folder folder;
  Json json = tiny();
  json.erase("pre_tokenizer");
  json["model"] = Json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [["", 0], ["a", -1]]})");
  json["added_tokens"][0]["id"] = 2;
  const Tokenizer tokenizer = Tokenizer::load(folder.write("tokenizer.json", json.dump()));
  EXPECT_THAT(ids_of(tokenizer, "aba"), ElementsAre(1, 0, 1));
  EXPECT_THAT(ids_of(tokenizer, std::string("\0a", 2)), ElementsAre(0, 1));
}

/// A place in a text has 32 bits. The text is never touched, so it takes no memory.
TEST(Load, AUnigramTextOfFourGigabytesIsRefused) {
  constexpr size_t kBytes = (size_t{4} << 30) + 1;
  void* text =
      ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(text, MAP_FAILED);
  Vocabulary vocabulary;
  vocabulary.add("a", 0);
  const Unigram model({{"a", -1.0}}, vocabulary, {}, "a test");
  Scratch scratch;
  std::vector<int32_t> ids;
  EXPECT_THROW(model.encode({static_cast<const char*>(text), kBytes}, scratch, ids), UsageError);
  ::munmap(text, kBytes);
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
}  // namespace convoy::tokenizers
