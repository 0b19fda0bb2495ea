#pragma once

#include "convoy/text/chars_map.h"
#include "convoy/text/sentencepiece_file.h"
#include "convoy/text/trie.h"

namespace convoy::text {

/// What SentencePiece does to a text before it is cut: its map of characters, and spaces.
class SentencePieceNormalizer {
 public:
  explicit SentencePieceNormalizer(const SentencePieceFile& file);
  void operator()(std::string_view text, std::string& out) const;

 private:
  /// What the front of the text becomes, and how many bytes that is for; it is not empty.
  CharsMap::Rule front(std::string_view text) const;

  CharsMap map_;
  Trie kept_;  // the user's own symbols
  std::string space_;
  bool space_in_front_, space_behind_, removes_spaces_;
};

}  // namespace convoy::text
