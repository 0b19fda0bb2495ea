#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/tokenizers/tokenizer.h"

namespace convoy::tokenizers::testing {

inline std::filesystem::path source_folder() {
  return std::filesystem::path(CONVOY_SOURCE_DIR);
}

/// A file of tests/tokenizers that make_fixtures.py wrote.
inline Json fixture(const std::string& name) {
  const auto path = source_folder() / "tests/tokenizers" / name;
  return parse_json(read_file(path), path.string());
}

/// FNV-1a over numbers, as make_fixtures.py has it.
constexpr uint64_t kHashStart = 0xCBF29CE484222325ull;
inline uint64_t hash_with(uint64_t hash, uint64_t number) {
  return (hash ^ number) * 0x100000001B3ull;
}
inline std::string hex(uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

/// A folder of its own for one test, removed with it.
class Folder {
 public:
  Folder() : path_(unique_folder("convoy-text-")) {}
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path write(const std::string& name, std::string_view content) const {
    write_file(path_ / name, content);
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

inline std::vector<int32_t> ids_of(const Tokenizer& tokenizer, std::string_view text,
                                   bool add_special_tokens = true) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids, add_special_tokens);
  return ids;
}

}  // namespace convoy::tokenizers::testing
