#include "convoy/tokenizers/tokenizer_parts.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "convoy/base/base64.h"
#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::tokenizers {
namespace {

namespace fs = std::filesystem;

/// Names of files that each hold a whole tokenizer; a folder's first one in this order counts.
constexpr const char* kWhole[] = {"tokenizer.json",          "tokenizer.model", "spiece.model",
                                  "sentencepiece.bpe.model", "vocab.json",      "vocab.txt"};
constexpr const char* kMerges = "merges.txt";
/// Files with settings, of which the second overrides the first.
constexpr const char* kSettings[] = {"special_tokens_map.json", "tokenizer_config.json"};
/// File with added tokens by id, for a tokenizer_config.json without "added_tokens_decoder".
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kDecoder = "added_tokens_decoder";

bool is_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

/// Whether the file has the form of tiktoken, as Llama 3's original one: lines of base64 and a
/// rank.
bool is_tiktoken(std::string_view bytes) {
  const std::string line = first_line(bytes);
  const size_t space = line.find(' ');
  int64_t rank = 0;
  return space != std::string::npos && space > 0 && from_base64(line.substr(0, space)) &&
         parse_number(line.substr(space + 1), rank);
}

/// First of kWhole that a folder has; "" = none.
fs::path whole_in(const fs::path& folder) {
  for (const char* name : kWhole) {
    if (is_file(folder / name)) return folder / name;
  }
  return {};
}

fs::path find_in(const fs::path& folder) {
  if (const auto file = whole_in(folder); !file.empty()) return file;
  fail<FileError>("tokenizer",
                  "folder {} holds no tokenizer; expected tokenizer.json, a SentencePiece "
                  "tokenizer.model, vocab.json with merges.txt, or vocab.txt",
                  folder.string());
}

fs::path merges_of(const fs::path& vocabulary) {
  const fs::path merges = vocabulary.parent_path() / kMerges;
  if (!is_file(merges)) {
    fail<FileError>("tokenizer", "{} needs its merges; there is no {}", vocabulary.string(),
                    merges.string());
  }
  return merges;
}

/// Id of a token that a family of models has by default.
std::optional<int32_t> id_of(const TokenizerParts& parts, std::string_view token) {
  const int32_t id = parts.vocabulary.find(token);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

TokenizerParts read(const fs::path& file, const JsonField& config, std::span<const Json> settings) {
  const std::string name = file.string();
  if (file.filename() == kMerges) return read(file.parent_path() / "vocab.json", config, settings);
  if (file.extension() == ".txt") {
    TokenizerParts parts = parts_of_json(json_of_word_list(read_file(file), name, config), name);
    parts.files = {{file, "vocab.txt"}};
    parts.special_ids.pad = id_of(parts, "[PAD]");
    return parts;
  }
  if (file.filename() == "vocab.json") {
    const fs::path merges = merges_of(file);
    TokenizerParts parts = parts_of_json(
        json_of_merges(read_file(file), name, read_file(merges), merges.string(), config), name);
    parts.files = {{file}, {merges}};
    const auto end = id_of(parts, "<|endoftext|>");
    parts.special_ids = {.bos = end, .eos = end, .pad = {}, .unk = end};
    return parts;
  }
  const std::string bytes = read_file(file);
  TokenizerParts parts;
  if (file.extension() == ".json") {
    Json json = parse_json(bytes, name);
    patch_json(json, config, settings);
    parts = parts_of_json(json, name, AddedIds::kNext);
  } else if (is_tiktoken(bytes)) {
    fail<FileError>("tokenizer",
                    "{} is a tiktoken file, which lacks its regular expression and its special "
                    "tokens; try scripts/tiktoken_to_json.py, or tokenizer.json of the same model",
                    name);
  } else {
    parts = parts_of_sentencepiece(bytes, name, config);
  }
  const bool known =
      std::find(std::begin(kWhole), std::end(kWhole), file.filename()) != std::end(kWhole);
  const bool json = file.extension() == ".json";
  parts.files = {{file, known ? file.filename().string() : json ? kWhole[0] : kWhole[1]}};
  return parts;
}

/// Returns every token that the settings call special by its task, or in a list.
std::set<std::string> special_tokens(const Json settings[2]) {
  std::set<std::string> tokens;
  const auto take = [&](const Json& token) {
    const Json content = token.is_object() ? token.value("content", Json()) : token;
    if (content.is_string()) tokens.insert(content.get<std::string>());
  };
  for (int i = 0; i < 2; ++i) {
    for (const auto& [key, value] : settings[i].items()) {
      if (key.ends_with("_token")) take(value);
      if (!key.ends_with("_special_tokens") || !value.is_array()) continue;
      for (const Json& token : value) take(token);
    }
  }
  return tokens;
}

/// Content of added_tokens.json in the form of tokenizer_config.json.
Json decoder_of(const fs::path& file, const std::set<std::string>& special) {
  const Json ids = parse_json(read_file(file), file.string());
  if (!ids.is_object()) JsonField(ids, file.string()).refuse("an object of ids by token");
  Json decoder = Json::object();
  for (const auto& [token, id] : ids.items()) {
    const auto number =
        JsonField(id, fmt::format("{}: the id of '{}'", file.string(), token)).number(0, INT32_MAX);
    const bool is_special = special.contains(token);
    decoder[std::to_string(number)] = {
        {"content", token}, {"special", is_special}, {"normalized", !is_special}};
  }
  return decoder;
}

}  // namespace

TokenizerParts load_parts(const fs::path& path) {
  std::error_code code;
  const fs::path file = fs::is_directory(path, code) ? find_in(path) : path;
  if (!is_file(file)) {
    fail<FileError>("tokenizer", "there is no tokenizer {}; expected a folder or a file of one",
                    path.string());
  }
  const fs::path settings[] = {file.parent_path() / kSettings[0],
                               file.parent_path() / kSettings[1]};
  Json contents[] = {Json::object(), Json::object()};
  for (int i = 0; i < 2; ++i) {
    if (!is_file(settings[i])) continue;
    contents[i] = parse_json(read_file(settings[i]), settings[i].string());
    JsonField(contents[i], settings[i].string() + ": ").expect_flat();
  }
  const fs::path added = file.parent_path() / kAdded;
  const bool reads_added = file.extension() != ".json" || file.filename() == "vocab.json";
  const bool has_added = reads_added && is_file(added) && contents[1].is_object() &&
                         contents[1].value(kDecoder, Json()).is_null();
  if (has_added) contents[1][kDecoder] = decoder_of(added, special_tokens(contents));
  const JsonField config(contents[1], settings[1].string() + ": ");
  TokenizerParts parts = read(file, config, contents);
  if (has_added) parts.files.push_back({added});
  if (config.has("model_max_length")) {
    const double most = config["model_max_length"].fraction();
    if (most < 1) config["model_max_length"].refuse("at least 1");
    // 1e30 where nobody has set it.
    if (most < 1e9) parts.model_max_length = static_cast<int64_t>(most);
  }
  for (int i = 0; i < 2; ++i) {
    read_special_ids(JsonField(contents[i], settings[i].string() + ": "), parts.vocabulary,
                     parts.special_ids);
    if (is_file(settings[i])) parts.files.push_back({settings[i]});
  }
  if (!reads_added) check_frame(config, parts);
  return parts;
}

bool holds_tokenizer(const fs::path& folder) {
  return !whole_in(folder).empty();
}

std::vector<std::string> tokenizer_file_names() {
  std::vector<std::string> names(std::begin(kWhole), std::end(kWhole));
  names.emplace_back(kMerges);
  names.insert(names.end(), std::begin(kSettings), std::end(kSettings));
  names.emplace_back(kAdded);
  return names;
}

}  // namespace convoy::tokenizers
