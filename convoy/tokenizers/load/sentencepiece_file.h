#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::tokenizers {

/// Fields of sentencepiece_model.proto: the model's normalizer, and two of its settings.
inline constexpr int kSentencePieceNormalizer = 3;
inline constexpr int kSentencePieceDummyPrefix = 3, kSentencePieceExtraSpaces = 4;

/// Content of a SentencePiece model, by sentencepiece_model.proto. Texts point into the bytes that
/// were read.
struct SentencePieceFile {
  enum Type { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string_view text;
    float score = 0;
    int64_t type = kNormal;
  };
  static constexpr int64_t kUnigram = 1;

  std::vector<Piece> pieces;
  int64_t model_type = kUnigram;
  bool byte_fallback = false;
  bool space_behind = false;  ///< treat_whitespace_as_suffix
  std::string_view chars_map;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

/// Reads a model and looks at what SentencePiece's library takes on trust, which a damaged file
/// would let it read beyond its memory or compute without an end: the map of characters, and scores
/// that are no numbers. Throws FileError.
SentencePieceFile read_sentencepiece(std::string_view bytes, const std::string& where);

}  // namespace convoy::tokenizers
