#include <algorithm>

#include "convoy/base/text.h"
#include "convoy/tokenizers/tokenizer_parts.h"

namespace convoy::tokenizers {
namespace {

/// Lines of a file, without an empty last one.
std::vector<std::string> lines_of(std::string_view text, const std::string& name) {
  if (!is_utf8(text)) {
    fail<FileError>("tokenizer",
                    "{} is not UTF-8; expected the text file that belongs to a tokenizer", name);
  }
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (std::string& line : lines) {
    if (line.ends_with('\r')) line.pop_back();
  }
  return lines;
}

/// Content of a token in tokenizer_config.json, a text or an object there.
std::string token_of(const JsonField& config, const char* key, const char* otherwise) {
  if (!config.has(key)) return otherwise;
  const JsonField value = config[key];
  return value.json().is_object() ? value["content"].text() : value.text();
}

void expect_class(const JsonField& config, std::string_view name, const char* file) {
  const std::string given = config.text("tokenizer_class", "");
  if (given.empty() || given == name || given == fmt::format("{}Fast", name)) return;
  config["tokenizer_class"].refuse(fmt::format(
      "{} beside a {}; for another save tokenizer.json with save_pretrained of transformers", name,
      file));
}

/// List "added_tokens" of the tokens that the settings name or that are special by default.
Json added_tokens(const JsonField& config, const Json& vocabulary,
                  const std::vector<std::string>& special) {
  Json tokens = added_tokens_of(config);
  std::vector<std::string> seen;
  for (const Json& token : tokens) seen.push_back(token["content"].get<std::string>());
  for (const std::string& token : special) {
    if (token.empty() || !vocabulary.contains(token)) continue;
    if (std::find(seen.begin(), seen.end(), token) != seen.end()) continue;
    seen.push_back(token);
    tokens.push_back({{"id", vocabulary[token]}, {"content", token}, {"special", true}});
  }
  return tokens;
}

/// Template that puts added tokens around a text; tokens without a name are left out.
Json frame(const Json& added, const std::string& before, const std::string& behind) {
  Json single = Json::array();
  Json tokens = Json::object();
  const auto add = [&](const std::string& name) {
    const auto token = std::find_if(added.begin(), added.end(),
                                    [&](const Json& one) { return one["content"] == name; });
    if (token == added.end()) return;
    single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
    tokens[name] = {{"id", name}, {"ids", {(*token)["id"]}}, {"tokens", {name}}};
  };
  add(before);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add(behind);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", tokens}};
}

}  // namespace

Json added_tokens_of(const JsonField& config) {
  Json tokens = Json::array();
  if (!config.has("added_tokens_decoder")) return tokens;
  const JsonField decoder = config["added_tokens_decoder"];
  if (!decoder.json().is_object()) decoder.refuse("an object of tokens by id");
  for (const auto& [id, token] : decoder.json().items()) {
    const JsonField part(token, fmt::format("{}.{}", decoder.where(), id));
    int64_t number = 0;
    if (!parse_number(id, number)) part.refuse("a whole number as key");
    part["content"].text();
    tokens.push_back(token);
    tokens.back()["id"] = number;
  }
  return tokens;
}

Json json_of_merges(std::string_view vocabulary, const std::string& vocabulary_name,
                    std::string_view merges, const std::string& merges_name,
                    const JsonField& config) {
  expect_class(config, "GPT2Tokenizer", "vocab.json with merges.txt");
  const Json tokens = parse_json(vocabulary, vocabulary_name);
  JsonField(tokens, vocabulary_name + ": ").expect_flat();
  if (!tokens.is_object()) JsonField(tokens, vocabulary_name).refuse("an object of tokens by id");
  Json pairs = Json::array();
  size_t number = 0;
  for (const std::string& line : lines_of(merges, merges_name)) {
    ++number;
    if (line.starts_with("#version") || line.empty()) continue;
    const std::vector<std::string> both = split(line, ' ');
    if (both.size() != 2 || both[0].empty() || both[1].empty()) {
      fail<FileError>("tokenizer",
                      "{}:{}: '{}' is no merge; expected two tokens and a space between",
                      merges_name, number, line);
    }
    pairs.push_back({both[0], both[1]});
  }
  constexpr const char* kEnd = "<|endoftext|>";
  const std::string bos = token_of(config, "bos_token", kEnd);
  const std::string eos = token_of(config, "eos_token", kEnd);
  const std::vector<std::string> special{bos, eos, token_of(config, "unk_token", kEnd),
                                         token_of(config, "pad_token", "")};
  const bool add_bos = config.flag("add_bos_token", false);
  const bool add_eos = config.flag("add_eos_token", false);
  const Json added = added_tokens(config, tokens, special);
  return {{"added_tokens", added},
          {"pre_tokenizer",
           {{"type", "ByteLevel"}, {"add_prefix_space", config.flag("add_prefix_space", false)}}},
          {"post_processor", frame(added, add_bos ? bos : "", add_eos ? eos : "")},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", tokens}, {"merges", pairs}}}};
}

Json json_of_word_list(std::string_view words, const std::string& name, const JsonField& config) {
  expect_class(config, "BertTokenizer", "vocab.txt");
  Json tokens = Json::object();
  int64_t id = 0;
  for (const std::string& word : lines_of(words, name)) tokens[word] = id++;
  const std::string cls = token_of(config, "cls_token", "[CLS]");
  const std::string sep = token_of(config, "sep_token", "[SEP]");
  const std::string unk = token_of(config, "unk_token", "[UNK]");
  const std::vector<std::string> special{unk, sep, token_of(config, "pad_token", "[PAD]"), cls,
                                         token_of(config, "mask_token", "[MASK]")};
  Json strip = nullptr;
  if (config.has("strip_accents")) strip = config["strip_accents"].flag();
  const Json added = added_tokens(config, tokens, special);
  return {{"added_tokens", added},
          {"normalizer",
           {{"type", "BertNormalizer"},
            {"clean_text", true},
            {"handle_chinese_chars", config.flag("tokenize_chinese_chars", true)},
            {"strip_accents", strip},
            {"lowercase", config.flag("do_lower_case", true)}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"post_processor", frame(added, cls, sep)},
          {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
          {"model", {{"type", "WordPiece"}, {"unk_token", unk}, {"vocab", tokens}}}};
}

}  // namespace convoy::tokenizers
