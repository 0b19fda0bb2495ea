#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "convoy/tokenizers/json_field.h"

namespace convoy::tokenizers {

/// A text cut into pieces that are not empty.
struct Pieces {
  struct Piece {
    size_t begin = 0;
    size_t end = 0;
  };
  std::string_view text;  ///< another's, or `own` after a step that changed it
  std::string own;
  std::vector<Piece> pieces;
  bool at_start = false;  ///< whether the whole text begins here

  std::vector<Piece> spare;  ///< memory that the next step may use
  /// Place, for each byte of `text`, of the character in the first text that it comes from; kept
  /// where `follows` is set.
  std::vector<size_t> from;
  bool follows = false;

  std::string_view of(const Piece& piece) const {
    return text.substr(piece.begin, piece.end - piece.begin);
  }
};

/// A part of tokenizer.json's "pre_tokenizer": cuts pieces into smaller ones.
using PreTokenizer = std::function<void(Pieces& pieces)>;

/// Steps of "pre_tokenizer", in their order, and whether the model then sees bytes.
struct PreTokenizers {
  std::vector<PreTokenizer> steps;
  bool byte_level = false;
};

/// Last step for a model that sees bytes as characters of GPT-2's alphabet, as ByteLevel hands them
/// on: of any model but BPE, whose tokens are kept as bytes here.
PreTokenizer bytes_as_characters();

/// Throws FileError that names what is not supported.
PreTokenizers make_pre_tokenizers(const JsonField& part);

}  // namespace convoy::tokenizers
