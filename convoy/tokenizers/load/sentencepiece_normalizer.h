#pragma once

#include "convoy/tokenizers/load/sentencepiece_file.h"
#include "convoy/tokenizers/models/trie.h"
#include "convoy/tokenizers/unicode/chars_map.h"

namespace convoy::tokenizers {

/// SentencePiece's normalization of a text before it is cut: its map of characters, and spaces.
class SentencePieceNormalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceFile& file);
  void operator()(std::string_view text, std::string& out) const;

 private:
  /// Replacement of the front of the text, and the number of bytes that it replaces; the text is
  /// not empty.
  CharsMap::Rule front(std::string_view text) const;

  CharsMap map_;
  Trie kept_;  // the user's own symbols
  std::string space_;
  bool space_in_front_, space_behind_, removes_spaces_;
};

}  // namespace convoy::tokenizers
