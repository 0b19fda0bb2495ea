#include "convoy/tokenizers/load/sentencepiece_file.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/protobuf.h"
#include "convoy/base/text.h"
#include "convoy/tokenizers/models/vocabulary.h"
#include "convoy/tokenizers/unicode/chars_map.h"

namespace convoy::tokenizers {
namespace {

// Fields of SentencePiece's sentencepiece_model.proto.
constexpr uint32_t kPieces = 1, kTrainer = 2, kNormalizer = kSentencePieceNormalizer,
                   kDenormalizer = 5;
constexpr uint32_t kPieceText = 1, kPieceScore = 2, kPieceType = 3;
constexpr uint32_t kModelType = 3, kSpaceBehind = 24, kByteFallback = 35;
constexpr uint32_t kCharsMap = 2, kDummyPrefix = kSentencePieceDummyPrefix,
                   kExtraSpaces = kSentencePieceExtraSpaces, kEscapeSpaces = 5;

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

class Message : public protobuf::Reader {
 public:
  Message(std::string_view bytes, const std::string& where)
      : Reader(bytes, where, "SentencePiece model") {}
};

SentencePieceFile::Piece read_piece(std::string_view bytes, size_t number,
                                    const std::string& where) {
  const auto refuse = [&](const char* what) {
    fail<FileError>("tokenizer", "{}: piece {} {}", where, number, what);
  };
  SentencePieceFile::Piece piece;
  Message message(bytes, where);
  while (message.next()) {
    const std::string_view content = message.content();
    switch (message.field()) {
      case kPieceText:
        if (!is_utf8(content) || content.find('\0') != std::string_view::npos) {
          refuse("is not UTF-8 without zeros");
        }
        piece.text = content;
        break;
      case kPieceScore:
        if (content.size() != 4 || !std::isfinite(load<float>(content, 0))) {
          refuse("has a score that is no finite number");
        }
        piece.score = load<float>(content, 0);
        break;
      case kPieceType:
        piece.type = message.number();
        break;
      default:
        break;
    }
  }
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& where, SentencePieceFile& file) {
  Message spec(bytes, where);
  while (spec.next()) {
    if (spec.field() == kModelType) file.model_type = spec.number();
    if (spec.field() == kSpaceBehind) file.space_behind = spec.number() != 0;
    if (spec.field() == kByteFallback) file.byte_fallback = spec.number() != 0;
  }
}

void read_normalizer(std::string_view bytes, const std::string& where, SentencePieceFile& file) {
  Message spec(bytes, where);
  while (spec.next()) {
    if (spec.field() == kCharsMap) {
      file.chars_map = spec.content();
      if (CharsMap::is_sound(file.chars_map)) continue;
      fail<FileError>("tokenizer", "{}: its map of characters (precompiled_charsmap) is damaged",
                      where);
    }
    if (spec.field() == kDummyPrefix) file.add_dummy_prefix = spec.number() != 0;
    if (spec.field() == kExtraSpaces) file.remove_extra_whitespaces = spec.number() != 0;
    if (spec.field() == kEscapeSpaces) file.escape_whitespaces = spec.number() != 0;
  }
}

}  // namespace

SentencePieceFile read_sentencepiece(std::string_view bytes, const std::string& where) {
  SentencePieceFile file;
  Message model(bytes, where);
  while (model.next()) {
    const std::string_view content = model.content();
    switch (model.field()) {
      case kPieces:
        file.pieces.push_back(read_piece(content, file.pieces.size(), where));
        break;
      case kTrainer:
        read_trainer(content, where, file);
        break;
      case kNormalizer:
        read_normalizer(content, where, file);
        break;
      case kDenormalizer: {
        SentencePieceFile other;  // only looked at
        read_normalizer(content, where, other);
        break;
      }
      default:
        break;
    }
  }
  const auto num_pieces = static_cast<int64_t>(file.pieces.size());
  if (num_pieces == 0 || num_pieces > Vocabulary::kMaxSize) {
    fail<FileError>("tokenizer", "{} is no SentencePiece model: it has {} pieces; expected 1 to {}",
                    where, num_pieces, Vocabulary::kMaxSize);
  }
  return file;
}

}  // namespace convoy::tokenizers
