#include "convoy/formats/npy.h"

#include <gmock/gmock.h>

#include <cstring>

#include "convoy/base/error.h"

namespace convoy::formats {
namespace {

using testing::HasSubstr;

std::string npy(const std::string& header, const std::string& bytes) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  return out + header + bytes;
}

// As numpy 2 writes numpy.array([[1, 2, 3], [4, 5, 6]], 'float32').
std::string six() {
  const float values[] = {1, 2, 3, 4, 5, 6};
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
  header.resize(117, ' ');
  header += '\n';
  return npy(header, std::string(reinterpret_cast<const char*>(values), sizeof(values)));
}

std::string complaint(const std::string& content) {
  try {
    parse_npy(content, "a.npy");
  } catch (const FileError& error) {
    return error.what();
  }
  return "";
}

TEST(Npy, ReadsWhatNumpyWrites) {
  const auto array = parse_npy(six(), "a.npy");
  EXPECT_EQ(array.dtype, "F32");
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  float last = 0;
  std::memcpy(&last, array.bytes.data() + 5 * sizeof(float), sizeof(last));
  EXPECT_EQ(last, 6);
  const auto scalar =
      parse_npy(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", "12345678"), "s");
  EXPECT_TRUE(scalar.shape.empty());
  const auto list =
      parse_npy(npy("{'descr': '<f2', 'fortran_order': False, 'shape': (3,), }", "abcdef"), "s");
  EXPECT_EQ(list.shape, std::vector<int64_t>{3});
}

TEST(Npy, RefusesWhatIsCutOrAnother) {
  const auto whole = six();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(complaint(whole.substr(0, length)), "") << length;
  }
  EXPECT_THAT(complaint(whole + "x"), HasSubstr("25 bytes of numbers"));
  EXPECT_THAT(complaint("no numpy"), HasSubstr("does not begin like one"));
  const auto with = [](const char* header) { return complaint(npy(header, "12345678")); };
  EXPECT_THAT(with("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }"),
              HasSubstr("numbers of type '<i8'"));
  EXPECT_THAT(with("{'descr': '<f8', 'fortran_order': True, 'shape': (1,), }"),
              HasSubstr("column by column"));
  EXPECT_THAT(with("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
              HasSubstr("its shape has '-1'"));
  EXPECT_THAT(with("{'descr': '<f8', 'fortran_order': False, }"), HasSubstr("lacks 'shape'"));
  EXPECT_THAT(with("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }"),
              HasSubstr("which its shape"));
}

}  // namespace
}  // namespace convoy::formats
