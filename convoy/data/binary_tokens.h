#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convoy/data/token_view.h"

// Files of ids that other programs write, mapped into memory as they are.
namespace convoy::data {

/// Ids of a file of another program.
struct BinaryTokens {
  std::string format;  ///< "Megatron", "llm.c", "nanoGPT"
  TokenView ids;
  std::vector<int64_t> ends;           ///< of each document; one for all where the file has none
  std::shared_ptr<const void> mapped;  ///< keeps the ids
};

/// Maps a file of ids, or nothing where it is none by its name: Megatron's `.bin` with its `.idx`
/// (either name, or the two names' beginning), llm.c's `.bin` with its header (16 bits an id, 32
/// for Llama 3), or nanoGPT's `.bin` of bare 16-bit ids. Throws FileError where a header or an
/// index does not fit the file.
std::optional<BinaryTokens> map_binary_tokens(const std::filesystem::path& file);

/// Whether map_binary_tokens() takes a file, by its name and what lies beside it.
bool holds_binary_tokens(const std::filesystem::path& file);

/// Ends of documents that `token` ends; the last document ends with the ids. Reads all ids.
std::vector<int64_t> ends_by_token(const TokenView& ids, int64_t token);

}  // namespace convoy::data
