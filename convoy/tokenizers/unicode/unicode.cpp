#include "convoy/tokenizers/unicode/unicode.h"

#include <cstring>

#include "convoy/base/base64.h"
#include "convoy/base/protobuf.h"
#include "convoy/base/text.h"
#include "convoy/tokenizers/unicode/unicode_tables.h"

namespace convoy::tokenizers {
namespace {

std::vector<uint8_t> unpack_runs(const char* table) {
  std::vector<uint8_t> values;
  values.reserve(kNumCodePoints);
  for (TableStream stream(table); !stream.done();) {
    const size_t length = stream.next();
    values.insert(values.end(), length, static_cast<uint8_t>(stream.next()));
  }
  return values;
}

/// Length of the malformed character at the front: as many bytes as could begin a valid one.
size_t malformed_length(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  const size_t expected = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 1;
  size_t length = 1;
  for (; length < expected && length < bytes.size(); ++length) {
    const auto byte = static_cast<unsigned char>(bytes[length]);
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    if (length == 1) {
      if (first == 0xE0) low = 0xA0;
      if (first == 0xED) high = 0x9F;
      if (first == 0xF0) low = 0x90;
      if (first == 0xF4) high = 0x8F;
    }
    if (byte < low || byte > high) break;
  }
  return length;
}

}  // namespace

uint8_t TableStream::next_byte() {
  while (num_bits_ < 8) {
    bits_ = bits_ << 6 | static_cast<uint32_t>(base64_digit(*base64_++));
    num_bits_ += 6;
  }
  num_bits_ -= 8;
  return static_cast<uint8_t>(bits_ >> num_bits_);
}

uint32_t TableStream::next() {
  const auto number = protobuf::get_varint([&] { return std::optional(next_byte()); });
  return static_cast<uint32_t>(number.value());
}

int32_t TableStream::next_signed() {
  const uint32_t number = next();
  return static_cast<int32_t>(number >> 1) ^ -static_cast<int32_t>(number & 1);
}

Characters::Characters()
    : kinds_(unpack_runs(tables::kCategories)), bert_(unpack_runs(tables::kBertFlags)) {
  for (char32_t c = 0; c < kNumCodePoints; ++c) {
    const bool separator = kinds_[c] >= Zs && kinds_[c] <= Zp;
    if (separator || (c >= 9 && c <= 13) || c == 0x85) kinds_[c] |= kSpaceBit;
  }
}

const Characters& Characters::get() {
  static const Characters characters;
  return characters;
}

void append_utf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (c >> shift & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

size_t well_formed_prefix(std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    uint64_t eight = 0;
    if (at + 8 <= bytes.size()) {
      std::memcpy(&eight, bytes.data() + at, 8);
      if ((eight & 0x8080808080808080ull) == 0) {
        at += 8;
        continue;
      }
    }
    const size_t length = utf8_length(bytes.substr(at));
    if (length == 0) break;
    at += length;
  }
  return at;
}

size_t replace_malformed(std::string_view bytes, std::string& out) {
  size_t replaced = 0;
  for (;;) {
    const size_t good = well_formed_prefix(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return replaced;
    append_utf8(kReplacement, out);
    ++replaced;
    bytes.remove_prefix(malformed_length(bytes));
  }
}

}  // namespace convoy::tokenizers
