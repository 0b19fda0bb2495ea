#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <vector>

#include "convoy/base/json_number.h"
#include "convoy/tokenizers/tokenizer_parts.h"

namespace convoy::tokenizers {
namespace {

constexpr std::array kBertClasses{"BertTokenizer",     "DistilBertTokenizer", "ElectraTokenizer",
                                  "MPNetTokenizer",    "MobileBertTokenizer", "ConvBertTokenizer",
                                  "LayoutLMTokenizer", "FunnelTokenizer"};
constexpr std::array kLlamaClasses{"LlamaTokenizer", "CodeLlamaTokenizer", "GemmaTokenizer"};

/// Value of tokenizer_class in the settings, without the Fast of transformers 4.
std::string class_of(const JsonField& config) {
  std::string name = config.text("tokenizer_class", "");
  constexpr std::string_view kFast = "Fast";
  if (name.ends_with(kFast)) name.resize(name.size() - kFast.size());
  return name;
}

template <class Classes>
bool is_one_of(const Classes& classes, const std::string& name) {
  return std::find(classes.begin(), classes.end(), name) != classes.end();
}

bool is_of_type(const Json& json, const char* key, const char* type) {
  const auto part = json.find(key);
  return part != json.end() && part->is_object() && part->value("type", Json()) == type;
}

/// Id of a token in "model" of tokenizer.json.
std::optional<int64_t> id_in_model(const Json& json, const std::string& token) {
  const auto model = json.find("model");
  if (model == json.end() || !model->is_object()) return std::nullopt;
  const Json vocabulary = model->value("vocab", Json());
  if (vocabulary.is_object()) return whole_number<int64_t>(vocabulary.value(token, Json()));
  for (size_t id = 0; vocabulary.is_array() && id < vocabulary.size(); ++id) {
    const Json& piece = vocabulary[id];
    if (piece.is_array() && !piece.empty() && piece[0] == token) return static_cast<int64_t>(id);
  }
  return std::nullopt;
}

/// Tokens that a setting names, each a text or an object.
std::vector<Json> named_by(const std::string& key, const Json& value) {
  if (key.ends_with("_token")) return {value};
  if (!key.ends_with("_special_tokens") || !value.is_array()) return {};
  return value.get<std::vector<Json>>();
}

/// Adds special tokens that the settings name and the vocabulary has, but not as added tokens:
/// transformers adds them when it loads, so that they are cut out of texts.
void add_named_tokens(Json& json, const JsonField& config, std::span<const Json> settings) {
  std::set<std::string> known;
  Json added = json.value("added_tokens", Json());
  if (added.is_null()) added = Json::array();
  if (!added.is_array()) return;  // is refused elsewhere
  for (const Json& token : added) known.insert(convoy::text_of(token, "content"));
  const size_t before = added.size();
  const auto add = [&](const Json& token, bool special) {
    const auto content =
        token.is_string() ? token.get<std::string>() : convoy::text_of(token, "content");
    const auto id =
        content.empty() || known.contains(content) ? std::nullopt : id_in_model(json, content);
    if (!id) return;
    Json entry{{"id", *id}, {"content", content}, {"special", special}, {"normalized", !special}};
    for (const char* flag : {"lstrip", "rstrip", "normalized", "single_word"}) {
      if (token.is_object() && token.contains(flag)) entry[flag] = token[flag];
    }
    added.push_back(std::move(entry));
    known.insert(content);
  };
  for (const Json& token : added_tokens_of(config)) {
    add(token, token.value("special", Json(false)) == true);
  }
  for (const Json& one : settings) {
    for (const auto& [key, value] : one.items()) {
      for (const Json& token : named_by(key, value)) add(token, /*special=*/true);
    }
  }
  if (added.size() > before) json["added_tokens"] = std::move(added);
}

/// Sets a key of a part, unless it has that value already or by default, so that equal tokenizers
/// keep one fingerprint.
void set(Json& part, const char* key, const Json& value, const Json& otherwise) {
  if (part.value(key, otherwise) != value) part[key] = value;
}

/// Whether the tokenizer prepends a blank to a text, as SentencePiece does.
bool prepends_blank(const Json& part) {
  if (!part.is_structured()) return false;
  const auto type = convoy::text_of(part, "type");
  if (type == "Prepend") return true;
  if (type == "Metaspace") {
    return part.contains("prepend_scheme") ? part["prepend_scheme"] != "never"
                                           : part.value("add_prefix_space", Json(true)) == true;
  }
  return std::any_of(part.begin(), part.end(), prepends_blank);
}

}  // namespace

void patch_json(Json& json, const JsonField& config, std::span<const Json> settings) {
  if (!json.is_object()) return;
  add_named_tokens(json, config, settings);
  const auto name = class_of(config);
  if (is_one_of(kBertClasses, name) && is_of_type(json, "normalizer", "BertNormalizer")) {
    auto& normalizer = json["normalizer"];
    const Json strips = config.has("strip_accents") ? Json(config["strip_accents"].flag()) : Json();
    set(normalizer, "lowercase", config.flag("do_lower_case", true), true);
    set(normalizer, "handle_chinese_chars", config.flag("tokenize_chinese_chars", true), true);
    set(normalizer, "strip_accents", strips, nullptr);
  }
  if (name == "GPT2Tokenizer" && is_of_type(json, "pre_tokenizer", "ByteLevel")) {
    set(json["pre_tokenizer"], "add_prefix_space", config.flag("add_prefix_space", false), true);
  }
  const bool keeps_blank = config.flag("add_prefix_space", true);
  if (is_one_of(kLlamaClasses, name) && !keeps_blank &&
      (prepends_blank(json.value("normalizer", Json())) ||
       prepends_blank(json.value("pre_tokenizer", Json())))) {
    config["add_prefix_space"].refuse(
        "what tokenizer.json does, which puts a blank in front of a text; try to save both anew "
        "with save_pretrained of transformers");
  }
}

void check_frame(const JsonField& config, const TokenizerParts& parts) {
  if (!is_one_of(kLlamaClasses, class_of(config))) return;
  const auto check = [&](const char* key, const std::optional<int32_t>& id,
                         const std::vector<int32_t>& around) {
    if (!config.has(key) || !id) return;
    const bool adds = std::find(around.begin(), around.end(), *id) != around.end();
    if (config[key].flag() == adds) return;
    config[key].refuse(fmt::format(
        "{}, as the post_processor of tokenizer.json has it: versions of transformers differ in "
        "which of the two they follow; make them say the same",
        adds));
  };
  check("add_bos_token", parts.special_ids.bos, parts.frame.before);
  check("add_eos_token", parts.special_ids.eos, parts.frame.behind);
}

}  // namespace convoy::tokenizers
