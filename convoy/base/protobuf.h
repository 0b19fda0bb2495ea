#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

/// Wire format of Protocol Buffers, for messages whose few fields are known by number.
namespace convoy::protobuf {

static_assert(std::endian::native == std::endian::little, "messages are little-endian");

enum WireType { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// A number of 7 bits a byte, the lowest first. `next_byte` gives an optional<uint8_t>; none where
/// it ends too early or the number has more than 64 bits.
template <class NextByte>
std::optional<uint64_t> get_varint(NextByte&& next_byte) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::optional<uint8_t> byte = next_byte();
    if (!byte) return std::nullopt;
    value |= static_cast<uint64_t>(*byte & 0x7F) << shift;
    if (*byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Walks over the fields of a message.
class Reader {
 public:
  /// `where` and `what` ("SentencePiece model") are for errors. All must outlive the reader.
  Reader(std::string_view bytes, const std::string& where, std::string_view what)
      : bytes_(bytes), where_(where), what_(what) {}

  /// Goes to the next field; false at the end. Throws FileError for what is no message.
  bool next();
  uint32_t field() const { return field_; }
  int64_t number() const { return number_; }             ///< of a field of type kVarint
  std::string_view content() const { return content_; }  ///< of any other

 private:
  uint64_t varint();
  void take(uint64_t size);
  [[noreturn]] void damaged() const;

  std::string_view bytes_;
  const std::string& where_;
  std::string_view what_;
  uint32_t field_ = 0;
  std::string_view content_;
  int64_t number_ = 0;
};

void put_varint(std::string& out, uint64_t value);
void put_key(std::string& out, int field, WireType type);
void put_bytes(std::string& out, int field, std::string_view bytes);

template <class T>
void put_fixed(std::string& out, int field, T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  put_key(out, field, sizeof(T) == 4 ? kFixed32 : kFixed64);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace convoy::protobuf
