#include "convoy/text/load.h"

#include "convoy/base/files.h"
#include "convoy/base/text.h"

namespace convoy::text {
namespace {

namespace fs = std::filesystem;

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

/// The file of a folder that says most.
fs::path find_in(const fs::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "spiece.model",
                           "sentencepiece.bpe.model", "vocab.json", "vocab.txt"}) {
    if (is_file(folder / name)) return folder / name;
  }
  fail<FileError>("text",
                  "folder {} holds no tokenizer; expected tokenizer.json, a SentencePiece "
                  "tokenizer.model, vocab.json with merges.txt, or vocab.txt",
                  folder.string());
}

fs::path merges_of(const fs::path& vocabulary) {
  const fs::path merges = vocabulary.parent_path() / "merges.txt";
  if (!is_file(merges)) {
    fail<FileError>("text", "{} needs its merges; there is no {}", vocabulary.string(),
                    merges.string());
  }
  return merges;
}

Parts read(const fs::path& file, const Part& config) {
  const std::string name = file.string();
  if (file.filename() == "merges.txt") return read(file.parent_path() / "vocab.json", config);
  if (file.extension() == ".txt") {
    Parts parts = parts_of_json(json_of_word_list(read_file(file), name, config), name);
    parts.files = {file};
    return parts;
  }
  if (file.filename() == "vocab.json") {
    const fs::path merges = merges_of(file);
    Parts parts = parts_of_json(
        json_of_merges(read_file(file), name, read_file(merges), merges.string(), config), name);
    parts.files = {file, merges};
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
  const fs::path config_file = file.parent_path() / "tokenizer_config.json";
  const bool has_config = is_file(config_file);
  const Json config =
      has_config ? parse_json(read_file(config_file), config_file.string()) : Json::object();
  const Part config_part(config, config_file.string() + ": ");
  config_part.expect_flat();
  Parts parts = read(file, config_part);
  read_special_ids(config_part, parts.vocabulary, parts.special_ids);
  if (has_config) parts.files.push_back(config_file);
  const fs::path map = file.parent_path() / "special_tokens_map.json";
  if (is_file(map)) parts.files.push_back(map);
  return parts;
}

}  // namespace convoy::text
