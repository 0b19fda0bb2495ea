#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace convoy::tokenizers {

constexpr char32_t kNumCodePoints = 0x110000;
constexpr char32_t kReplacement = 0xFFFD;

/// Unicode's general categories, letters first, so that a class of them is a range.
enum Category : uint8_t {
  // clang-format off
  Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe, Pi, Pf, Po, Sm, Sc, Sk, So,
  Zs, Zl, Zp, Cc, Cf, Cs, Co, Cn
  // clang-format on
};

/// Unicode 16's properties of every code point.
class Characters {
 public:
  /// Unpacked at the first call.
  static const Characters& get();

  Category category(char32_t c) const { return static_cast<Category>(kinds_[c] & kCategoryBits); }
  bool is_letter(char32_t c) const { return category(c) <= Lo; }
  bool is_number(char32_t c) const { return category(c) >= Nd && category(c) <= No; }
  bool is_space(char32_t c) const { return (kinds_[c] & kSpaceBit) != 0; }

  // Classes in Hugging Face's BERT components, whose tables are older.
  bool is_bert_punctuation(char32_t c) const { return (bert_[c] & 1) != 0; }
  bool is_bert_control(char32_t c) const { return (bert_[c] & 2) != 0; }
  bool is_bert_accent(char32_t c) const { return (bert_[c] & 4) != 0; }
  bool is_mark(char32_t c) const { return (bert_[c] & 8) != 0; }

 private:
  Characters();

  static constexpr uint8_t kCategoryBits = 31;
  static constexpr uint8_t kSpaceBit = 32;
  std::vector<uint8_t> kinds_;
  std::vector<uint8_t> bert_;
};

/// Numbers of a stream of unicode_tables.cpp.
class TableStream {
 public:
  explicit TableStream(const char* base64) : base64_(base64) {}
  bool done() const { return *base64_ == '\0' || *base64_ == '='; }
  uint32_t next();
  int32_t next_signed();

 private:
  uint8_t next_byte();

  const char* base64_;
  uint32_t bits_ = 0;
  int num_bits_ = 0;
};

/// Returns the character at `at` of well-formed UTF-8; moves `at` behind it.
inline char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const char32_t first = byte(0);
  if (first < 0x80) return ++at, first;
  if (first < 0xE0) return at += 2, (first & 0x1F) << 6 | (byte(-1) & 0x3F);
  if (first < 0xF0) {
    return at += 3, (first & 0xF) << 12 | (byte(-2) & 0x3F) << 6 | (byte(-1) & 0x3F);
  }
  at += 4;
  return (first & 7) << 18 | (byte(-3) & 0x3F) << 12 | (byte(-2) & 0x3F) << 6 | (byte(-1) & 0x3F);
}

/// Position of the last character before `end`.
inline size_t previous_character(std::string_view text, size_t end) {
  do {
    --end;
  } while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
  return end;
}

/// End of the character, as a reader sees it (Unicode 17, UAX 29: extended grapheme clusters), that
/// begins at `begin` of well-formed UTF-8. Right for all below 6 bytes, which is enough for
/// SentencePiece's maps: flags, conjuncts of Indic scripts and joined emoji may come in parts.
size_t grapheme_end(std::string_view text, size_t begin);

void append_utf8(char32_t c, std::string& out);

/// Bytes of the front of `bytes` that are well-formed UTF-8.
size_t well_formed_prefix(std::string_view bytes);

/// Copies `bytes` with U+FFFD for every maximal part that is not UTF-8, as Python and Rust do.
/// Returns how many there were.
size_t replace_malformed(std::string_view bytes, std::string& out);

}  // namespace convoy::tokenizers
