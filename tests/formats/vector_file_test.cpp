#include "convoy/formats/vector_file.h"

#include <gmock/gmock.h>

#include <cstring>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/formats/npy.h"

namespace convoy::formats {
namespace {

class VectorFileTest : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = unique_folder("convoy-vectors"); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
};

TEST_F(VectorFileTest, IsAnArrayOfNumpyOfAnyLength) {
  const auto file = folder_ / "a.npy";
  const float rows[] = {1, 2, 3, 4, 5, 6};
  VectorFile out(file, "a.npy", kNpy, 3);
  out.add(rows);
  out.add(rows + 3);
  out.finish();
  const auto array = read_npy(file);
  EXPECT_EQ(array.dtype, "F32");
  EXPECT_EQ(array.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(array.bytes.data(), rows, sizeof(rows)), 0);
  EXPECT_EQ((std::filesystem::file_size(file) - sizeof(rows)) % 64, 0U) << "numbers are aligned";

  VectorFile none(folder_ / "none.npy", "none.npy", kNpy, 3);
  none.finish();
  EXPECT_EQ(read_npy(folder_ / "none.npy").shape, (std::vector<int64_t>{0, 3}));
}

TEST_F(VectorFileTest, IsOfVectorsThatFollowTheirWidth) {
  const float rows[] = {1, 2, 3, 4};
  VectorFile out(folder_ / "a.fvecs", "a.fvecs", kFvecs, 2);
  out.add(rows, 2);
  out.finish();
  const auto bytes = read_file(folder_ / "a.fvecs");
  ASSERT_EQ(bytes.size(), 24U);
  int32_t width = 0;
  float number = 0;
  std::memcpy(&width, bytes.data() + 12, 4);
  std::memcpy(&number, bytes.data() + 16, 4);
  EXPECT_EQ(width, 2);
  EXPECT_EQ(number, 3);
}

TEST_F(VectorFileTest, NamesTheFileThatCannotBeWritten) {
  try {
    const VectorFile out(folder_ / "nowhere/a.npy", "vectors/a.npy", kNpy, 2);
    FAIL();
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("cannot write vectors/a.npy"));
  }
}

}  // namespace
}  // namespace convoy::formats
