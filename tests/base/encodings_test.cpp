#include <gtest/gtest.h>

#include <vector>

#include "convoy/base/base64.h"
#include "convoy/base/error.h"
#include "convoy/base/protobuf.h"

namespace convoy {
namespace {

TEST(Base64, DecodesWithAndWithoutItsEnd) {
  EXPECT_EQ(from_base64(""), "");
  EXPECT_EQ(from_base64("Zm9vYmE="), "fooba");
  EXPECT_EQ(from_base64("Zm9vYg"), "foob");
  EXPECT_EQ(from_base64("+/8A"), std::string("\xFB\xFF\0", 3));
  for (const char* text : {"Zm9v Yg", "Zm-v", "Z=9v", "\xC3\xA9"}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

TEST(Protobuf, ReadsWhatItWrites) {
  std::string message;
  protobuf::put_bytes(message, 1, "text");
  protobuf::put_fixed(message, 2, 1.5f);
  protobuf::put_fixed(message, 300, uint64_t{7});
  protobuf::put_key(message, 4, protobuf::kVarint);
  protobuf::put_varint(message, UINT64_MAX);
  const std::string where = "here";
  protobuf::Reader reader(message, where, "message");
  std::vector<uint32_t> fields;
  std::string contents;
  while (reader.next()) {
    fields.push_back(reader.field());
    contents += reader.content();
  }
  EXPECT_EQ(fields, (std::vector<uint32_t>{1, 2, 300, 4}));
  EXPECT_EQ(contents, std::string("text\0\0\xC0\x3F\7\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(reader.number(), -1);
  for (const auto& damaged :
       {message.substr(0, 3), message.substr(0, message.size() - 1), std::string(1, '\x80'),
        std::string(1, '\x0B'), std::string(12, '\xFF')}) {
    protobuf::Reader broken(damaged, where, "message");
    const auto read = [&] {
      while (broken.next()) continue;
    };
    EXPECT_THROW(read(), FileError) << damaged.size();
  }
}

}  // namespace
}  // namespace convoy
