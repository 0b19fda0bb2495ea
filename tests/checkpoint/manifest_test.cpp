#include "convoy/checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "convoy/base/checksum.h"
#include "convoy/base/error.h"
#include "convoy/base/files.h"

namespace convoy::checkpoint {
namespace {

TEST(Manifest, PiecesAddUpToTheWhole) {
  std::vector<uint32_t> values(1000);
  std::iota(values.begin(), values.end(), 0xF0000000u);
  const auto whole = checksum(values.data(), values.size(), 4, 0);
  for (const size_t cut : {0, 1, 333, 999, 1000}) {
    EXPECT_EQ(whole, checksum(values.data(), cut, 4, 0) +
                         checksum(values.data() + cut, values.size() - cut, 4, cut));
  }
}

TEST(Manifest, ChecksumsAreWhatTheyHaveAlwaysBeen) {
  std::vector<uint32_t> values(1000);
  uint32_t state = 1;
  for (auto& value : values) value = state = state * 1664525u + 1013904223u;
  for (const uint64_t begin : {uint64_t{0}, uint64_t{7}, uint64_t{1} << 40}) {
    for (const size_t count : {0, 1, 15, 16, 17, 1000}) {
      uint64_t expected = 0;
      for (size_t i = 0; i < count; ++i) expected += values[i] * (2 * (begin + i) + 1);
      EXPECT_EQ(checksum(values.data(), count, 4, begin), expected) << begin << " " << count;
    }
  }
}

TEST(Manifest, AnyFlippedBitAndSwappedElementsAreSeen) {
  for (const size_t width : {1, 2, 4, 8}) {
    std::vector<uint8_t> bytes(32 * width);
    std::iota(bytes.begin(), bytes.end(), 7);
    const auto before = checksum(bytes.data(), 32, width, 5);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      auto flipped = bytes;
      flipped[bit / 8] ^= static_cast<uint8_t>(1u << bit % 8);
      EXPECT_NE(checksum(flipped.data(), 32, width, 5), before) << width << " " << bit;
    }
    auto swapped = bytes;
    std::swap_ranges(swapped.begin(), swapped.begin() + static_cast<std::ptrdiff_t>(width),
                     swapped.begin() + static_cast<std::ptrdiff_t>(9 * width));
    EXPECT_NE(checksum(swapped.data(), 32, width, 5), before);
  }
}

TEST(Manifest, ReadsBackWhatItWrites) {
  Manifest manifest;
  manifest.set("model.safetensors", "a.weight", 0xfedcba9876543210u);
  manifest.set_bytes("model.safetensors", 4096);
  const auto again = Manifest::parse(manifest.to_text(), "here");
  EXPECT_EQ(again.sums(), manifest.sums());
  EXPECT_EQ(again.bytes(), manifest.bytes());
}

TEST(Manifest, MissesFilesThatVanished) {
  const auto folder = unique_folder("convoy-manifest");
  Manifest manifest;
  manifest.set_bytes("model.safetensors", 3);
  write_file(folder / "model.safetensors", "abc");
  manifest.check_files(folder);
  write_file(folder / "model.safetensors", "ab");
  EXPECT_THROW(manifest.check_files(folder), FileError);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(manifest.check_files(folder), FileError);
}

TEST(Manifest, RefusesWhatIsNone) {
  const std::string head = R"({"version": 1, "files": )";
  for (const std::string& text : {
           std::string("[]"),
           std::string(R"({"version": 2, "files": {}})"),
           std::string(R"({"version": 1})"),
           head + "3}",
           head + R"({"f": 1}})",
           head + R"({"f": {"bytes": -1, "tensors": {}}}})",
           head + R"({"f": {"bytes": 1}}})",
           head + R"({"f": {"bytes": 1, "tensors": {"a": 7}}}})",
           head + R"({"f": {"bytes": 1, "tensors": {"a": "xyz"}}}})",
           head + R"({"f": {"bytes": 1, "tensors": {"a": "11112222333344445"}}}})",
       }) {
    try {
      Manifest::parse(text, "place");
      ADD_FAILURE() << "accepted " << text;
    } catch (const FileError& error) {
      EXPECT_NE(std::string(error.what()).find("place"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace convoy::checkpoint
