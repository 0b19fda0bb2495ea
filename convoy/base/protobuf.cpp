#include "convoy/base/protobuf.h"

#include "convoy/base/error.h"

namespace convoy::protobuf {

bool Reader::next() {
  if (bytes_.empty()) return false;
  const uint64_t key = varint();
  field_ = static_cast<uint32_t>(key >> 3);
  content_ = {};
  switch (key & 7) {
    case kVarint:
      number_ = static_cast<int64_t>(varint());
      break;
    case kFixed64:
      take(8);
      break;
    case kBytes:
      take(varint());
      break;
    case kFixed32:
      take(4);
      break;
    default:
      damaged();
  }
  return true;
}

uint64_t Reader::varint() {
  const auto value = get_varint([&]() -> std::optional<uint8_t> {
    if (bytes_.empty()) return std::nullopt;
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  });
  if (!value) damaged();
  return *value;
}

void Reader::take(uint64_t size) {
  if (size > bytes_.size()) damaged();
  content_ = bytes_.substr(0, size);
  bytes_.remove_prefix(size);
}

void Reader::damaged() const {
  fail<FileError>("files", "{} is no {}: its messages are damaged", where_, what_);
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, int field, WireType type) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | type);
}

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

}  // namespace convoy::protobuf
