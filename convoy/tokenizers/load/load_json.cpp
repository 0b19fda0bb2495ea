#include <cmath>

#include "convoy/base/json_number.h"
#include "convoy/base/random.h"
#include "convoy/tokenizers/models/bpe.h"
#include "convoy/tokenizers/models/unigram.h"
#include "convoy/tokenizers/models/word_level.h"
#include "convoy/tokenizers/models/word_piece.h"
#include "convoy/tokenizers/tokenizer_parts.h"

namespace convoy::tokenizers {
namespace {

using Merges = std::vector<std::pair<std::string, std::string>>;

uint64_t hash_of(const Json& json) {
  return hash_text(json.dump(-1, ' ', true, Json::error_handler_t::replace));
}

BpeOptions read_bpe_options(const JsonField& model, bool byte_level) {
  model.expect_keys({"type", "dropout", "unk_token", "continuing_subword_prefix",
                     "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges", "vocab",
                     "merges"});
  if (model.has("dropout") && model["dropout"].fraction() != 0) {
    model["dropout"].refuse("null: the same text must give the same ids");
  }
  BpeOptions options;
  options.byte_level = byte_level;
  options.byte_fallback = model.flag("byte_fallback", false);
  options.ignore_merges = model.flag("ignore_merges", false);
  options.fuse_unk = model.flag("fuse_unk", false);
  options.unk_token = model.text("unk_token", "");
  options.continuing_subword_prefix = model.text("continuing_subword_prefix", "");
  options.end_of_word_suffix = model.text("end_of_word_suffix", "");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix", "byte_fallback"}) {
    if (byte_level && model.has(key) && model[key].json() != "" && model[key].json() != false) {
      model[key].refuse("nothing together with ByteLevel");
    }
  }
  return options;
}

Merges read_merges(const JsonField& part) {
  if (!part.json().is_array()) part.refuse("a list");
  Merges merges;
  merges.reserve(part.json().size());
  for (const Json& merge : part.json()) {
    std::string left;
    std::string right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const auto both = merge.get<std::string>();
      const size_t space = both.find(' ');
      left = both.substr(0, space);
      right = space == std::string::npos ? "" : both.substr(space + 1);
    }
    if (left.empty() || right.empty() || (merge.is_string() && right.find(' ') != right.npos)) {
      JsonField(merge, fmt::format("{}[{}]", part.where(), merges.size()))
          .refuse("two tokens, as \"a b\" or [\"a\", \"b\"]");
    }
    merges.emplace_back(std::move(left), std::move(right));
  }
  return merges;
}

void read_vocabulary(const JsonField& part, Vocabulary& vocabulary) {
  if (!part.json().is_object()) part.refuse("an object of tokens with their ids");
  for (const auto& [token, id] : part.json().items()) {
    const int64_t number = whole_number<int64_t>(id).value_or(-1);
    const bool good = number >= 0 && number < Vocabulary::kMaxSize &&
                      vocabulary.add(token, static_cast<int32_t>(number));
    if (good) continue;
    JsonField(id, fmt::format("{}: the id of '{}'", part.where(), token))
        .refuse(fmt::format("a whole number 0 to {} that no other token has",
                            Vocabulary::kMaxSize - 1));
  }
}

std::unique_ptr<Model> make_unigram(const JsonField& model, Vocabulary& vocabulary) {
  model.expect_keys({"type", "unk_id", "vocab", "byte_fallback"});
  std::vector<UnigramPiece> pieces;
  for (const JsonField& element : model["vocab"].elements()) {
    const Json& pair = element.json();
    const bool good =
        pair.is_array() && pair.size() == 2 && pair[0].is_string() && finite_number(pair[1]) &&
        std::ssize(pieces) < Vocabulary::kMaxSize &&
        vocabulary.add(pair[0].get_ref<const std::string&>(), static_cast<int32_t>(pieces.size()));
    if (!good) element.refuse("a token that is not there yet, and its score");
    pieces.push_back({pair[0].get_ref<const std::string&>(), *finite_number(pair[1])});
  }
  UnigramOptions options;
  options.unk_id = static_cast<int32_t>(model["unk_id"].number(0, std::ssize(pieces) - 1));
  options.byte_fallback = model.flag("byte_fallback", false);
  return std::make_unique<Unigram>(pieces, vocabulary, options, model.where());
}

void make_model(const JsonField& model, TokenizerParts& parts) {
  // Files of the first years have no "type".
  const std::string type = model.has("type")     ? model.type()
                           : model.has("merges") ? "BPE"
                           : model.has("unk_id") ? "Unigram"
                                                 : "WordPiece";
  uint64_t& fingerprint = parts.fingerprint;
  for (const auto& [key, value] : model.json().items()) {
    if (key == "vocab" || key == "merges" || value.is_null()) continue;
    fingerprint = hash_combine(fingerprint, hash_combine(hash_text(key), hash_of(value)));
  }
  if (type == "BPE") {
    read_vocabulary(model["vocab"], parts.vocabulary);
    const Merges merges = read_merges(model["merges"]);
    for (const auto& [left, right] : merges) {
      fingerprint = hash_combine(fingerprint, hash_combine(hash_text(left), hash_text(right)));
    }
    parts.model = std::make_unique<Bpe>(parts.vocabulary, merges,
                                        read_bpe_options(model, parts.pre_tokenizers.byte_level),
                                        model.where());
  } else if (type == "WordPiece") {
    model.expect_keys(
        {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
    read_vocabulary(model["vocab"], parts.vocabulary);
    WordPieceOptions options;
    options.unk_token = model.text("unk_token", "[UNK]");
    options.continuing_subword_prefix = model.text("continuing_subword_prefix", "##");
    if (model.has("max_input_chars_per_word")) {
      options.max_input_chars_per_word = model["max_input_chars_per_word"].number(0, INT32_MAX);
    }
    parts.model = std::make_unique<WordPiece>(parts.vocabulary, options, model.where());
  } else if (type == "WordLevel") {
    model.expect_keys({"type", "unk_token", "vocab"});
    read_vocabulary(model["vocab"], parts.vocabulary);
    parts.model = std::make_unique<WordLevel>(parts.vocabulary, model.text("unk_token", "<unk>"),
                                              model.where());
  } else if (type == "Unigram") {
    parts.model = make_unigram(model, parts.vocabulary);
    fingerprint = hash_combine(fingerprint, hash_of(model["vocab"].json()));
    parts.special_ids.unk = static_cast<int32_t>(model["unk_id"].number(0, INT32_MAX));
  } else {
    model["type"].refuse("BPE, WordPiece, WordLevel or Unigram");
  }
  if (type != "BPE" && parts.pre_tokenizers.byte_level) {
    parts.pre_tokenizers.steps.push_back(bytes_as_characters());
  }
  const Vocabulary& vocabulary = parts.vocabulary;
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id)) continue;
    fingerprint = hash_combine(fingerprint, hash_combine(id, hash_text(vocabulary.text(id))));
  }
  if (const std::string unk = model.text("unk_token", ""); !unk.empty()) {
    parts.special_ids.unk = vocabulary.find(unk);
  }
}

}  // namespace

void add_tokens(const JsonField& part, TokenizerParts& parts, AddedIds ids) {
  int32_t next = parts.vocabulary.num_tokens();  // id of a token that is not there yet
  for (const JsonField& element : part.elements()) {
    const auto id = static_cast<int32_t>(element["id"].number(0, Vocabulary::kMaxSize - 1));
    const AddedToken token = read_added_token(element, id);
    const int32_t known = parts.vocabulary.find(token.content);
    const bool is_new = known == Vocabulary::kNone && !token.content.empty();
    const int32_t free = is_new ? next++ : id;
    if (ids == AddedIds::kNext && id != free) {
      element["id"].refuse(
          fmt::format("{}, which Hugging Face's tokenizers give '{}', as the next behind the "
                      "vocabulary",
                      free, token.content));
    }
    if (known != id && (known != Vocabulary::kNone || !parts.vocabulary.add(token.content, id))) {
      element["id"].refuse(known == Vocabulary::kNone
                               ? fmt::format("another: '{}' has it", parts.vocabulary.text(id))
                               : fmt::format("{}, as in the vocabulary", known));
    }
    if (token.normalized) {
      std::string buffer;
      parts.tokens_of_normalized.add(token, normalize(parts.normalizers, token.content, buffer));
    } else {
      parts.tokens_of_text.add(token, token.content);
    }
    parts.special.resize(parts.vocabulary.size());
    parts.special[id] = token.special;
  }
}

TokenizerParts parts_of_json(const Json& json, const std::string& where, AddedIds ids) {
  const JsonField file(json, where + ": ");
  file.expect_flat();
  file.expect_keys({"version", "truncation", "padding", "added_tokens", "normalizer",
                    "pre_tokenizer", "post_processor", "decoder", "model"});
  static const Json kNull;
  const auto part = [&](const char* key) {
    return file.has(key) ? file[key] : JsonField(kNull, where + ": " + key);
  };
  TokenizerParts parts;
  for (const char* key :
       {"added_tokens", "normalizer", "pre_tokenizer", "post_processor", "decoder"}) {
    parts.fingerprint = hash_combine(parts.fingerprint, hash_of(part(key).json()));
  }
  parts.normalizers = make_normalizers(part("normalizer"));
  parts.pre_tokenizers = make_pre_tokenizers(part("pre_tokenizer"));
  make_model(file["model"], parts);
  if (file.has("added_tokens")) add_tokens(file["added_tokens"], parts, ids);
  parts.special.resize(parts.vocabulary.size());
  parts.frame = make_frame(part("post_processor"));
  for (const auto& ids : {parts.frame.before, parts.frame.behind}) {
    for (const int32_t id : ids) {
      if (parts.vocabulary.has(id)) continue;
      file["post_processor"].refuse(fmt::format("ids of tokens; no token has {}", id));
    }
  }
  parts.decoders = make_decoders(part("decoder"));
  return parts;
}

void read_special_ids(const JsonField& config, const Vocabulary& vocabulary, SpecialIds& ids) {
  const std::pair<const char*, std::optional<int32_t>*> places[] = {{"bos_token", &ids.bos},
                                                                    {"eos_token", &ids.eos},
                                                                    {"pad_token", &ids.pad},
                                                                    {"unk_token", &ids.unk}};
  for (const auto& [key, place] : places) {
    if (!config.has(key)) continue;
    const JsonField value = config[key];
    const std::string token = value.json().is_object() ? value["content"].text() : value.text();
    if (vocabulary.find(token) == Vocabulary::kNone) value.refuse("a token of the vocabulary");
    *place = vocabulary.find(token);
  }
}

}  // namespace convoy::tokenizers
