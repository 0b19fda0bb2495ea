#include "convoy/text/load.h"

#include <iterator>
#include <optional>

#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::text {
namespace {

namespace fs = std::filesystem;

/// Each of these is a tokenizer; of a folder the first counts.
constexpr const char* kWhole[] = {"tokenizer.json",          "tokenizer.model", "spiece.model",
                                  "sentencepiece.bpe.model", "vocab.json",      "vocab.txt"};
constexpr const char* kMerges = "merges.txt";
/// The newer file of the two has the last word.
constexpr const char* kSettings[] = {"special_tokens_map.json", "tokenizer_config.json"};

bool is_file(const fs::path& path) {
  std::error_code code;
  return fs::is_regular_file(path, code);
}

/// Llama 3's original form: lines of base64 and a rank.
bool is_tiktoken(std::string_view bytes) {
  const std::string line = first_line(bytes);
  const size_t space = line.find(' ');
  int64_t rank = 0;
  return space != std::string::npos && space > 0 &&
         line.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == space &&
         parse_number(line.substr(space + 1), rank);
}

/// The file of a folder that says most; "" = none.
fs::path whole_in(const fs::path& folder) {
  for (const char* name : kWhole) {
    if (is_file(folder / name)) return folder / name;
  }
  return {};
}

fs::path find_in(const fs::path& folder) {
  if (const auto file = whole_in(folder); !file.empty()) return file;
  fail<FileError>("text",
                  "folder {} holds no tokenizer; expected tokenizer.json, a SentencePiece "
                  "tokenizer.model, vocab.json with merges.txt, or vocab.txt",
                  folder.string());
}

fs::path merges_of(const fs::path& vocabulary) {
  const fs::path merges = vocabulary.parent_path() / kMerges;
  if (!is_file(merges)) {
    fail<FileError>("text", "{} needs its merges; there is no {}", vocabulary.string(),
                    merges.string());
  }
  return merges;
}

/// The id of a token that a family of models has by default.
std::optional<int32_t> id_of(const Parts& parts, std::string_view token) {
  const int32_t id = parts.vocabulary.find(token);
  return id == Vocabulary::kNone ? std::nullopt : std::optional(id);
}

Parts read(const fs::path& file, const Part& config) {
  const std::string name = file.string();
  if (file.filename() == kMerges) return read(file.parent_path() / "vocab.json", config);
  if (file.extension() == ".txt") {
    Parts parts = parts_of_json(json_of_word_list(read_file(file), name, config), name);
    parts.files = {file};
    parts.special_ids.pad = id_of(parts, "[PAD]");
    return parts;
  }
  if (file.filename() == "vocab.json") {
    const fs::path merges = merges_of(file);
    Parts parts = parts_of_json(
        json_of_merges(read_file(file), name, read_file(merges), merges.string(), config), name);
    parts.files = {file, merges};
    const auto end = id_of(parts, "<|endoftext|>");
    parts.special_ids = {.bos = end, .eos = end, .pad = {}, .unk = end};
    return parts;
  }
  const std::string bytes = read_file(file);
  Parts parts;
  if (file.extension() == ".json") {
    parts = parts_of_json(parse_json(bytes, name), name);
  } else if (is_tiktoken(bytes)) {
    fail<FileError>("text",
                    "{} is a tiktoken file, which lacks its regular expression and its special "
                    "tokens; try scripts/tiktoken_to_json.py, or tokenizer.json of the same model",
                    name);
  } else {
    parts = parts_of_sentencepiece(bytes, name, config);
  }
  parts.files = {file};
  return parts;
}

}  // namespace

Parts load_parts(const fs::path& path) {
  std::error_code code;
  const fs::path file = fs::is_directory(path, code) ? find_in(path) : path;
  if (!is_file(file)) {
    fail<FileError>("text", "there is no tokenizer {}; expected a folder or a file of one",
                    path.string());
  }
  const fs::path settings[] = {file.parent_path() / kSettings[0],
                               file.parent_path() / kSettings[1]};
  Json contents[] = {Json::object(), Json::object()};
  for (int i = 0; i < 2; ++i) {
    if (!is_file(settings[i])) continue;
    contents[i] = parse_json(read_file(settings[i]), settings[i].string());
    Part(contents[i], settings[i].string() + ": ").expect_flat();
  }
  const Part config(contents[1], settings[1].string() + ": ");
  Parts parts = read(file, config);
  if (config.has("model_max_length")) {
    const double most = config["model_max_length"].fraction();
    if (most < 1) config["model_max_length"].refuse("at least 1");
    // 1e30 where nobody has set it.
    if (most < 1e9) parts.model_max_length = static_cast<int64_t>(most);
  }
  for (int i = 0; i < 2; ++i) {
    read_special_ids(Part(contents[i], settings[i].string() + ": "), parts.vocabulary,
                     parts.special_ids);
    if (is_file(settings[i])) parts.files.push_back(settings[i]);
  }
  return parts;
}

bool holds_tokenizer(const fs::path& folder) {
  return !whole_in(folder).empty();
}

std::vector<std::string> tokenizer_file_names() {
  std::vector<std::string> names(std::begin(kWhole), std::end(kWhole));
  names.emplace_back(kMerges);
  names.insert(names.end(), std::begin(kSettings), std::end(kSettings));
  names.emplace_back("added_tokens.json");  // transformers reads it
  return names;
}

}  // namespace convoy::text
