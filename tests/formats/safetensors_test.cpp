#include "convoy/formats/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/random.h"
#include "tests/base/small_disk.h"

namespace convoy::formats {
namespace {

namespace fs = std::filesystem;

#define EXPECT_HAS(text, part)                                              \
  do {                                                                      \
    const std::string whole = text;                                         \
    EXPECT_NE(whole.find(part), std::string::npos) << "it said: " << whole; \
  } while (false)

class SafetensorsTest : public ::testing::Test {
 protected:
  ~SafetensorsTest() override { fs::remove_all(folder_); }

  /// A file with this header, its length in front, and `data_bytes` bytes behind.
  static std::string file_of(const std::string& header, size_t data_bytes) {
    const uint64_t length = header.size();
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + header + std::string(data_bytes, '\x01');
  }

  /// What opening these bytes says.
  std::string message_of(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    try {
      SafetensorsFile file(path_);
    } catch (const FileError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  const fs::path folder_ = unique_folder("convoy-safetensors-test");
  const fs::path path_ = folder_ / "model.safetensors";
};

TEST_F(SafetensorsTest, ReadsBackWhatItWrites) {
  const std::vector<float> weights = {1, 2, 3, 4, 5, 6};
  const std::vector<uint16_t> halves = {7, 8, 9};
  const std::vector<int64_t> steps = {-1};
  const std::vector<TensorView> tensors = {{"b.half", "BF16", {3}, halves.data(), 6},
                                           {"a.weight", "F32", {2, 3}, weights.data(), 24},
                                           {"step", "I64", {}, steps.data(), 8},
                                           {"empty", "F32", {0, 4}, nullptr, 0}};
  write_safetensors(path_, tensors, {{"format", "pt"}, {"note", "caf\xc3\xa9"}});
  SafetensorsFile file(path_);
  EXPECT_EQ(file.entries().size(), 4u);
  EXPECT_EQ(file.metadata().at("note"), "caf\xc3\xa9");
  EXPECT_EQ(file.entry("a.weight").shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.entry("b.half").dtype, "BF16");
  auto bytes = file.bytes("a.weight");
  ASSERT_EQ(bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(bytes.data(), weights.data(), 24), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4, 0u) << "tensors are not aligned";
  EXPECT_EQ(std::memcmp(file.bytes("b.half").data(), halves.data(), 6), 0);
  EXPECT_EQ(std::memcmp(file.bytes("step").data(), steps.data(), 8), 0);
  EXPECT_TRUE(file.bytes("empty").empty());
  uint64_t header = 0;
  std::memcpy(&header, read_file(path_).data(), 8);
  EXPECT_EQ(header % 8, 0u);
}

TEST_F(SafetensorsTest, BytesOutliveTheFirstOwner) {
  const float one = 1;
  write_safetensors(path_, std::vector<TensorView>{{"x", "F32", {1}, &one, 4}});
  auto file = std::make_unique<SafetensorsFile>(path_);
  SafetensorsFile copy = *file;
  file.reset();
  EXPECT_EQ(std::memcmp(copy.bytes("x").data(), &one, 4), 0);
}

TEST_F(SafetensorsTest, NamesTheNearestTensor) {
  const float one = 1;
  write_safetensors(path_, std::vector<TensorView>{{"head.weight", "F32", {1}, &one, 4}});
  try {
    SafetensorsFile(path_).bytes("head.weigth");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_HAS(error.what(), "did you mean 'head.weight'?");
  }
}

TEST_F(SafetensorsTest, RefusesToWriteNonsense) {
  const float one = 1;
  auto said = [&](std::vector<TensorView> tensors) -> std::string {
    try {
      write_safetensors(path_, tensors);
    } catch (const UsageError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  EXPECT_HAS(said({{"x", "F33", {1}, &one, 4}}), "dtype F33; expected one of BF16");
  EXPECT_HAS(said({{"x", "F32", {2}, &one, 4}}), "holds 4 bytes; expected 8 for F32 x [2]");
  EXPECT_HAS(said({{"x", "F32", {-1}, &one, 4}}), "cannot be F32 x [-1]");
  EXPECT_HAS(said({{"x", "F32", {1}, &one, 4}, {"x", "F32", {1}, &one, 4}}), "given twice");
  EXPECT_HAS(said({{"\xff", "F32", {1}, &one, 4}}), "not UTF-8");
  EXPECT_HAS(said({{"__metadata__", "F32", {1}, &one, 4}}), "cannot be named");
  EXPECT_FALSE(fs::exists(path_));
}

TEST_F(SafetensorsTest, KeepsTheOldFileWhenTheDiskIsFull) {
  const float one = 1;
  write_safetensors(path_, std::vector<TensorView>{{"x", "F32", {1}, &one, 4}});
  const std::string before = read_file(path_);
  {
    const SmallDisk disk(16);
    EXPECT_THROW(write_safetensors(path_, std::vector<TensorView>{{"y", "F32", {1}, &one, 4}}),
                 FileError);
  }
  EXPECT_EQ(read_file(path_), before);
}

/// Several in each page of the file, or one in several pages.
TEST_F(SafetensorsTest, WritesRowsOfSeveralSideBySide) {
  constexpr size_t kWriters = 3, kRows = 1000;
  make_folder(folder_);
  for (const size_t width : {20, 400, 3000}) {
    SCOPED_TRACE(width);
    const auto elements = static_cast<int64_t>(width / 4);
    const SafetensorsPlan plan({{"x", "F32", {kRows * kWriters, elements}}});
    SafetensorsPieces::create(path_, plan);
    std::string expected(kRows * kWriters * width, '\0');
    for (size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<char>(mix64(i));
    for (size_t writer = 0; writer < kWriters; ++writer) {
      SafetensorsPieces pieces(path_);
      std::string own;
      for (size_t row = writer; row < kRows * kWriters; row += kWriters) {
        own += expected.substr(row * width, width);
      }
      const auto begin = plan.begin.at("x") + writer * width;
      const size_t half = kRows / 2;
      pieces.write_rows(begin, own.data(), width, half, kWriters * width);
      pieces.write_rows(begin + half * kWriters * width, own.data() + half * width, width,
                        kRows - half, kWriters * width);
      pieces.sync([] {});
    }
    EXPECT_TRUE(read_file(path_) == plan.head + expected);
  }
}

TEST_F(SafetensorsTest, SaysWhatIsWrongWithAFile) {
  const std::string good = R"({"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})";
  EXPECT_EQ(message_of(file_of(good, 8)), "nothing was thrown");
  EXPECT_EQ(message_of(file_of("{}", 0)), "nothing was thrown");
  EXPECT_HAS(message_of(""), "holds 0 bytes");
  EXPECT_HAS(message_of("1234567"), "holds 7 bytes");
  EXPECT_HAS(message_of(std::string(8, '\xff')), "more than the 100000000 allowed");
  EXPECT_HAS(message_of(file_of(good, 8).substr(0, 20)), "cut short");
  EXPECT_HAS(message_of(file_of(good, 7)), "cut short");
  EXPECT_HAS(message_of(file_of(good, 9)), "take 8 bytes but 9 follow");
  EXPECT_HAS(message_of(file_of("{", 0)), "not valid JSON");
  EXPECT_HAS(message_of(file_of("{\"\xff\": 1}", 0)), "not valid JSON");
  EXPECT_HAS(message_of(file_of("[]", 0)), "expected an object");
  EXPECT_HAS(message_of(file_of(std::string(100000, '['), 0)), "not valid JSON");
  EXPECT_THROW(SafetensorsFile{folder_}, FileError);
  EXPECT_THROW(SafetensorsFile{folder_ / "nothing"}, FileError);
}

TEST_F(SafetensorsTest, SaysWhatIsWrongWithATensor) {
  auto said = [&](const std::string& tensor, size_t bytes) {
    return message_of(file_of("{\"x\": " + tensor + "}", bytes));
  };
  EXPECT_HAS(said("4", 0), "tensor 'x': it is number");
  EXPECT_HAS(said(R"({"shape": [], "data_offsets": [0, 4]})", 4), "'dtype' is missing");
  EXPECT_HAS(said(R"({"dtype": "Q8", "shape": [], "data_offsets": [0, 4]})", 4), "dtype Q8");
  EXPECT_HAS(said(R"({"dtype": "F32", "data_offsets": [0, 4]})", 4), "'shape' is missing");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]})", 4), "holds -1");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 4]})", 4), "holds 1.5");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [1], "data_offsets": [0]})", 4), "not [begin, end]");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 0]})", 4),
             "not [begin, end]");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [2], "data_offsets": [0, 4]})", 4),
             "takes 8 bytes but its offsets hold 4");
  EXPECT_HAS(
      said(R"({"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]})", 0),
      "more elements than memory");
  EXPECT_HAS(said(R"({"dtype": "F32", "shape": [1], "data_offsets": [4, 8]})", 8),
             "starts at byte 4 of the data; expected 0");
  EXPECT_HAS(said(R"({"dtype": "U8", "shape": [9007199254740993],
                      "data_offsets": [0, 9007199254740993]})",
                  8),
             "cut short");
  const std::string one = R"({"dtype": "F32", "shape": [1], "data_offsets": [0, 4]})";
  EXPECT_HAS(message_of(file_of("{\"x\": " + one + ", \"y\": " + one + "}", 4)), "expected 4");
  EXPECT_HAS(message_of(file_of("{\"x\": " + one + ", \"x\": " + one + "}", 4)), "'x' is twice");
  EXPECT_HAS(message_of(file_of(R"({"__metadata__": {"a": 1}})", 0)), "'a' is not a string");
  EXPECT_HAS(message_of(file_of(R"({"__metadata__": 1})", 0)), "not an object");
}

TEST_F(SafetensorsTest, DamagedHeadersAreErrorsNotCrashes) {
  const std::vector<float> values(16, 1.0f);
  write_safetensors(path_, std::vector<TensorView>{{"a", "F32", {4, 2}, values.data(), 32},
                                                   {"b", "F32", {8}, values.data(), 32}});
  const std::string good = read_file(path_);
  int errors = 0;
  for (uint64_t round = 0; round < 300; ++round) {
    std::string bad = good;
    for (uint64_t hit = 0; hit < 1 + round % 3; ++hit) {
      bad[mix64(round * 10 + hit) % (good.size() - 64)] = static_cast<char>(mix64(round + hit));
    }
    errors += message_of(bad) != "nothing was thrown";
  }
  EXPECT_GT(errors, 200);
}

}  // namespace
}  // namespace convoy::formats

#undef EXPECT_HAS
