#include "convoy/text/sentencepiece_check.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/text.h"
#include "convoy/text/vocabulary.h"

namespace convoy::text {
namespace {

// Fields of SentencePiece's sentencepiece_model.proto.
constexpr uint32_t kPieces = 1;
constexpr uint32_t kNormalizer = 3;
constexpr uint32_t kDenormalizer = 5;
constexpr uint32_t kPieceText = 1;
constexpr uint32_t kPieceScore = 2;
constexpr uint32_t kCharsMap = 2;

template <class T>
T load(std::string_view bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// Walks over the fields of a message of Protocol Buffers.
class Message {
 public:
  Message(std::string_view bytes, const std::string& where) : bytes_(bytes), where_(where) {}

  bool next() {
    if (bytes_.empty()) return false;
    const uint64_t key = varint();
    field_ = static_cast<uint32_t>(key >> 3);
    switch (key & 7) {
      case 0:
        varint();
        content_ = {};
        return true;
      case 1:
        return take(8);
      case 2:
        return take(varint());
      case 5:
        return take(4);
      default:
        damaged();
    }
  }
  uint32_t field() const { return field_; }
  std::string_view content() const { return content_; }

 private:
  [[noreturn]] void damaged() const {
    fail<FileError>("text", "{} is no SentencePiece model: its messages are damaged", where_);
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (bytes_.empty()) damaged();
      const auto byte = static_cast<unsigned char>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }
  bool take(uint64_t size) {
    if (size > bytes_.size()) damaged();
    content_ = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

  std::string_view bytes_;
  const std::string& where_;
  uint32_t field_ = 0;
  std::string_view content_;
};

/// A map of characters is the size of a double array (Darts-clone), the array, and texts that end
/// with zero. No step may lead out of the array, and no value out of the texts.
bool is_chars_map(std::string_view blob) {
  if (blob.empty()) return true;
  if (blob.size() < 4) return false;
  const auto size = load<uint32_t>(blob, 0);
  if (size % 4 != 0 || size < 1024 || size > blob.size() - 4) return false;
  const std::string_view texts = blob.substr(4 + size);
  if (texts.empty() || texts.back() != '\0') return false;
  const uint32_t num_units = size / 4;
  const auto unit = [&](uint32_t i) { return load<uint32_t>(blob, 4 + size_t{4} * i); };
  constexpr uint32_t kLeaf = 1u << 31;
  constexpr uint32_t kHasLeaf = 1u << 8;
  for (uint32_t i = 0; i < num_units; ++i) {
    const uint32_t value = unit(i);
    if (i > 0 && (value & kLeaf) != 0) continue;  // nobody asks what the root is
    const uint32_t next = i ^ (value >> 10 << ((value & 1u << 9) >> 6));
    if ((next | 255) >= num_units) return false;
    if ((value & kHasLeaf) != 0 && (unit(next) & ~kLeaf) >= texts.size()) return false;
  }
  return true;
}

void check_piece(std::string_view bytes, int64_t number, const std::string& where) {
  const auto refuse = [&](const char* what) {
    fail<FileError>("text", "{}: piece {} {}", where, number, what);
  };
  Message piece(bytes, where);
  while (piece.next()) {
    const std::string_view content = piece.content();
    if (piece.field() == kPieceText &&
        (!is_utf8(content) || content.find('\0') != std::string_view::npos)) {
      refuse("is not UTF-8 without zeros");
    }
    if (piece.field() == kPieceScore &&
        (content.size() != 4 || !std::isfinite(load<float>(content, 0)))) {
      refuse("has a score that is no finite number");
    }
  }
}

}  // namespace

void check_sentencepiece(std::string_view bytes, const std::string& where) {
  int64_t num_pieces = 0;
  Message model(bytes, where);
  while (model.next()) {
    if (model.field() == kPieces) check_piece(model.content(), num_pieces++, where);
    if (model.field() != kNormalizer && model.field() != kDenormalizer) continue;
    Message spec(model.content(), where);
    while (spec.next()) {
      if (spec.field() == kCharsMap && !is_chars_map(spec.content())) {
        fail<FileError>("text", "{}: its map of characters (precompiled_charsmap) is damaged",
                        where);
      }
    }
  }
  if (num_pieces == 0 || num_pieces > Vocabulary::kMaxSize) {
    fail<FileError>("text", "{} is no SentencePiece model: it has {} pieces; expected 1 to {}",
                    where, num_pieces, Vocabulary::kMaxSize);
  }
}

}  // namespace convoy::text
