#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "convoy/base/error.h"
#include "tests/tokenizers/text_testing.h"

// What transformers 5.24's AutoTokenizer makes of a tokenizer.json beside a tokenizer_config.json
// that says something else; the ids are its.
namespace convoy::tokenizers {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Json special(const std::vector<std::string>& tokens, int first) {
  Json out = Json::array();
  for (const auto& token : tokens) {
    out.push_back({{"id", first++}, {"content", token}, {"special", true}});
  }
  return out;
}

Json bert(bool lowercase) {
  return {{"added_tokens", special({"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, 0)},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", true},
            {"strip_accents", nullptr},
            {"lowercase", lowercase}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor",
           {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"continuing_subword_prefix", "##"},
            {"max_input_chars_per_word", 100},
            {"vocab",
             {{"[PAD]", 0},
              {"[UNK]", 1},
              {"[CLS]", 2},
              {"[SEP]", 3},
              {"[MASK]", 4},
              {"a", 5},
              {"A", 6},
              {"b", 7},
              {"\u00e9", 8},
              {"e", 9},
              {"<x>", 10},
              {"x", 11},
              {"<", 12},
              {">", 13}}}}}};
}

Json gpt2(bool prefix) {
  return {{"added_tokens", special({"<|endoftext|>"}, 4)},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", prefix}}},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"a", 0}, {"b", 1}, {"\u0120a", 2}, {"\u0120", 3}, {"<|endoftext|>", 4}}},
            {"merges", {"\u0120 a"}}}}};
}

Json llama(bool begins, bool ends) {
  Json single = Json::array();
  if (begins) single.push_back({{"SpecialToken", {{"id", "<s>"}, {"type_id", 0}}}});
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (ends) single.push_back({{"SpecialToken", {{"id", "</s>"}, {"type_id", 0}}}});
  const auto token = [](const char* name, int id) {
    return Json{{"id", name}, {"ids", {id}}, {"tokens", {name}}};
  };
  return {{"added_tokens", special({"<unk>", "<s>", "</s>"}, 0)},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"post_processor",
           {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", Json::array()},
            {"special_tokens", {{"<s>", token("<s>", 1)}, {"</s>", token("</s>", 2)}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"vocab",
             {{"<unk>", 0},
              {"<s>", 1},
              {"</s>", 2},
              {"\u2581", 3},
              {"a", 4},
              {"\u2581"
               "a",
               5}}},
            {"merges", {"\u2581 a"}}}}};
}

std::vector<int32_t> ids_with(const Json& tokenizer, Json config, const std::string& text) {
  const Folder folder;
  folder.write("tokenizer.json", tokenizer.dump());
  folder.write("tokenizer_config.json", config.dump());
  return ids_of(Tokenizer::load(folder.path()), text);
}

std::string error_with(const Json& tokenizer, const Json& config) {
  try {
    ids_with(tokenizer, config, "a");
  } catch (const FileError& error) {
    return error.what();
  }
  return "loaded";
}

TEST(PatchJson, BertsNormalizerIsWhatTheSettingsSay) {
  const std::string text = "A \u00e9";
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer"}) {
    const auto with = [&](const char* key, const Json& value) {
      return Json{{"tokenizer_class", name}, {key, value}};
    };
    EXPECT_THAT(ids_with(bert(true), with("do_lower_case", false), text), ElementsAre(2, 6, 8, 3));
    EXPECT_THAT(ids_with(bert(false), with("do_lower_case", true), text), ElementsAre(2, 5, 9, 3));
    EXPECT_THAT(ids_with(bert(true), with("strip_accents", false), text), ElementsAre(2, 5, 8, 3));
    EXPECT_THAT(ids_with(bert(false), with("model_max_length", 9), text), ElementsAre(2, 5, 9, 3))
        << "the class lowers where nobody says otherwise";
  }
  // The general class takes the file as it is, and so does none.
  for (const Json& name : {Json("PreTrainedTokenizerFast"), Json()}) {
    const Json config{{"tokenizer_class", name}, {"do_lower_case", false}};
    EXPECT_THAT(ids_with(bert(true), config, text), ElementsAre(2, 5, 9, 3));
  }
}

TEST(PatchJson, Gpt2sBlankInFrontIsWhatTheSettingsSay) {
  const auto config = [](const char* name, const Json& prefix) {
    return Json{{"tokenizer_class", name}, {"add_prefix_space", prefix}};
  };
  EXPECT_THAT(ids_with(gpt2(false), config("GPT2Tokenizer", true), "a a"), ElementsAre(2, 2));
  EXPECT_THAT(ids_with(gpt2(true), config("GPT2TokenizerFast", false), "a a"), ElementsAre(0, 2));
  EXPECT_THAT(ids_with(gpt2(true), config("GPT2TokenizerFast", Json()), "a a"), ElementsAre(0, 2));
  EXPECT_THAT(ids_with(gpt2(true), config("PreTrainedTokenizerFast", false), "a a"),
              ElementsAre(2, 2));
}

TEST(PatchJson, RefusesSettingsInWhichVersionsOfTransformersDiffer) {
  const auto config = [](const char* key, bool value, const char* name = "LlamaTokenizerFast") {
    return Json{
        {"tokenizer_class", name}, {"bos_token", "<s>"}, {"eos_token", "</s>"}, {key, value}};
  };
  EXPECT_THAT(ids_with(llama(true, false), config("add_bos_token", true), "a a"),
              ElementsAre(1, 5, 5));
  EXPECT_THAT(ids_with(llama(true, true), config("add_eos_token", true), "a"),
              ElementsAre(1, 5, 2));
  EXPECT_THAT(error_with(llama(true, false), config("add_eos_token", true)),
              HasSubstr("tokenizer_config.json: add_eos_token is true; expected false, as the "
                        "post_processor of tokenizer.json has it"));
  EXPECT_THAT(error_with(llama(true, false), config("add_bos_token", false)),
              HasSubstr("add_bos_token is false; expected true"));
  EXPECT_THAT(error_with(llama(true, false), config("add_prefix_space", false)),
              HasSubstr("add_prefix_space is false; expected what tokenizer.json does"));
  EXPECT_THAT(
      ids_with(llama(true, false), config("add_eos_token", true, "PreTrainedTokenizerFast"), "a"),
      ElementsAre(1, 5));
}

TEST(PatchJson, SpecialTokensThatOnlyTheSettingsNameAreCutOut) {
  const std::string text = "a<x>a";
  const Json plain{{"tokenizer_class", "PreTrainedTokenizerFast"}};
  EXPECT_THAT(ids_with(bert(true), plain, text), ElementsAre(2, 5, 12, 11, 13, 5, 3));
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, Json>>{
           {"additional_special_tokens", {"<x>"}},
           {"extra_special_tokens", {"<x>"}},
           {"mask_token", "<x>"},
           {"mask_token", {{"content", "<x>"}, {"special", true}}},
           {"added_tokens_decoder", {{"10", {{"content", "<x>"}, {"special", true}}}}}}) {
    Json config = plain;
    config[key] = value;
    EXPECT_THAT(ids_with(bert(true), config, text), ElementsAre(2, 5, 10, 5, 3)) << key;
  }
}

TEST(PatchJson, SettingsThatAgreeChangeNoFingerprint) {
  const auto fingerprint = [](const Json& tokenizer, const std::string& config) {
    const Folder folder;
    folder.write("tokenizer.json", tokenizer.dump());
    if (!config.empty()) folder.write("tokenizer_config.json", config);
    return Tokenizer::load(folder.path()).fingerprint();
  };
  auto short_bert = bert(true);
  short_bert["normalizer"].erase("strip_accents");
  short_bert.erase("added_tokens");
  EXPECT_EQ(fingerprint(short_bert, R"({"tokenizer_class": "BertTokenizer"})"),
            fingerprint(short_bert, ""));
  EXPECT_NE(fingerprint(bert(false), R"({"tokenizer_class": "BertTokenizer"})"),
            fingerprint(bert(false), ""));
}

}  // namespace
}  // namespace convoy::tokenizers
