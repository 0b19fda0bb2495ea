#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "convoy/base/json.h"
#include "convoy/base/normals.h"
#include "convoy/base/random.h"
#include "convoy/base/text.h"

namespace convoy {
namespace {

namespace fs = std::filesystem;

TEST(Random, PhiloxMatchesThePublishedVectors) {
  // Known answers of Random123's kat_vectors for philox4x32-10.
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}),
            (std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Random, PermutationsAreBijections) {
  for (uint64_t n : {1, 2, 3, 5, 16, 17, 100, 1000, 4097}) {
    Permutation permutation(n, 99);
    std::set<uint64_t> seen;
    for (uint64_t i = 0; i < n; ++i) {
      ASSERT_LT(permutation(i), n);
      seen.insert(permutation(i));
    }
    EXPECT_EQ(seen.size(), n);
  }
  EXPECT_NE(Permutation(1000, 1)(5), Permutation(1000, 2)(5));
}

TEST(Random, NormalsAreOfTheNormalDistribution) {
  constexpr int64_t kCount = 200000;
  std::vector<float> values(kCount);
  fill_normals(7, 0, kCount, 1, values.data());
  double sums[4]{};
  int64_t beyond = 0, far = 0;
  for (const double x : values) {
    for (int k = 0; k < 4; ++k) sums[k] += std::pow(x, k + 1) / kCount;
    beyond += std::abs(x) > 1;
    far += std::abs(x) > 3;
    ASSERT_LT(std::abs(x), 7);
  }
  EXPECT_NEAR(sums[0], 0, 0.01);
  EXPECT_NEAR(sums[1], 1, 0.015);
  EXPECT_NEAR(sums[2], 0, 0.04);
  EXPECT_NEAR(sums[3], 3, 0.1);
  EXPECT_NEAR(static_cast<double>(beyond) / kCount, 0.3173, 0.005);
  EXPECT_NEAR(static_cast<double>(far) / kCount, 0.0027, 0.0006);
  // Neighbours in a stream and in its groups know nothing of each other.
  for (const int64_t apart : {1, 16, 32, 64}) {
    double product = 0;
    for (int64_t i = 0; i + apart < kCount; ++i) product += values[i] * values[i + apart];
    EXPECT_NEAR(product / kCount, 0, 0.012) << apart;
  }
}

TEST(Random, NormalsAreTheSameHoweverTheyAreCut) {
  std::vector<float> whole(300), part(100);
  fill_normals(7, (uint64_t{1} << 38) - 100, 300, 0.02f, whole.data());
  for (const int64_t begin : {0, 1, 63, 64, 100, 199}) {
    fill_normals(7, (uint64_t{1} << 38) - 100 + begin, 100, 0.02f, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + begin)) << begin;
  }
  fill_normals(8, (uint64_t{1} << 38) - 100, 100, 0.02f, part.data());
  EXPECT_FALSE(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST(Files, AppearWholeOrNotAtAll) {
  auto folder = unique_folder("convoy-test");
  auto path = folder / "deep" / "file.txt";
  write_file(path, "first");
  {
    AtomicFile file(path);
    std::ofstream(file.temporary()) << "half";
    EXPECT_EQ(read_file(path), "first");
  }
  EXPECT_EQ(read_file(path), "first");
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(path.parent_path())) entries += entry.exists();
  EXPECT_EQ(entries, 1) << "a temporary file stayed behind";
  {
    AtomicFolder made(folder / "run");
    write_file(made.temporary() / "a", "1");
    EXPECT_FALSE(fs::exists(folder / "run"));
    made.commit();
  }
  EXPECT_EQ(read_file(folder / "run" / "a"), "1");
  {
    AtomicFolder again(folder / "run");
    write_file(again.temporary() / "b", "2");
    again.commit();
  }
  EXPECT_FALSE(fs::exists(folder / "run" / "a"));
  fs::remove_all(folder);
}

TEST(Files, DevicesAndPipesAreWrittenAsTheyAre) {
  const auto folder = unique_folder("convoy-test");
  fs::create_symlink("/dev/full", folder / "full");
  EXPECT_THROW(write_file(folder / "full", "text"), FileError);
  EXPECT_TRUE(fs::is_character_file(folder / "full"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_file(folder / "pipe"); });
  write_file(folder / "pipe", "text");
  EXPECT_TRUE(fs::is_fifo(folder / "pipe"));
  if (!fs::is_fifo(folder / "pipe")) std::_Exit(1);  // the reader waits for ever
  reader.join();
  EXPECT_EQ(got, "text");
  fs::remove_all(folder);
}

TEST(Files, ErrorsNameThePath) {
  try {
    read_file("/nowhere/at/all");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("cannot read /nowhere/at/all: No such file"),
              std::string::npos);
  }
  EXPECT_THROW(read_file("/tmp"), FileError);
  EXPECT_THROW(write_file("/proc/nope/file", "x"), FileError);
  EXPECT_THROW(write_file("/dev/full/x", "x"), FileError);
}

TEST(Text, Numbers) {
  int64_t whole = 0;
  double number = 0;
  EXPECT_TRUE(parse_number("-12", whole) && whole == -12);
  EXPECT_TRUE(parse_number("1e-3", number) && number == 1e-3);
  for (const char* bad : {"", "12x", "1.5", " 3", "999999999999999999999"}) {
    EXPECT_FALSE(parse_number(bad, whole)) << bad;
  }
}

TEST(Text, FormatsBytesTimesAndCountsForPeople) {
  EXPECT_EQ(human_bytes(512), "512 B");
  EXPECT_EQ(human_bytes(1536.0 * 1024 * 1024), "1.50 GiB");
  EXPECT_EQ(human_seconds(80), "1 min 20 s");
  EXPECT_EQ(human_seconds(7380), "2 h 03 min");
  EXPECT_EQ(human_count(1234567), "1,234,567");
  EXPECT_EQ(human_rate(5.254), "5.25");
  EXPECT_EQ(human_rate(9.996), "10.0");
  EXPECT_EQ(human_rate(99.96), "100");
  EXPECT_EQ(human_rate(1234.5), "1234");
  EXPECT_EQ(human_count(-100), "-100");
  EXPECT_EQ(nearest("lerning_rate", {"learning_rate", "weight_decay"}), "learning_rate");
  EXPECT_EQ(nearest("zzz", {"learning_rate"}), "");
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(trim("  x y\n"), "x y");
}

TEST(Json, ErrorsNameTheFileAndThePlace) {
  try {
    parse_json("{\"a\": }", "schema.json");
    FAIL();
  } catch (const FileError& error) {
    EXPECT_NE(std::string(error.what()).find("schema.json is not valid JSON"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("byte 7"), std::string::npos);
  }
}

TEST(Text, Utf8) {
  for (const char* good : {"", "a", "\u00e9", "\u20ac", "\U0001F600", "\u007f", "\U0010ffff"}) {
    EXPECT_TRUE(is_utf8(good)) << good;
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "a\xe2\x82", "\xf8\x88\x80\x80\x80"}) {
    EXPECT_FALSE(is_utf8(bad));
  }
}

TEST(Text, EscapesControlCharacters) {
  EXPECT_EQ(printable("h.0.weight \u00e9 \u4e2d"), "h.0.weight \u00e9 \u4e2d");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x1b[2J\n\x7f"), "\\x1b[2J\\x0a\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\xa0"),
            "\\x9b31m \xc2\xa0");
  EXPECT_EQ(printable("\xff"
                      "a\xc3"),
            "\\xffa\\xc3");
}

TEST(Text, SuggestsNoShortNameThatDiffersInEveryLetter) {
  EXPECT_EQ(nearest("lr", {"dir"}), "");
  EXPECT_EQ(nearest("dri", {"dir"}), "dir");
}

TEST(Text, WrapsAtDoubleSpacesFirst) {
  EXPECT_EQ(wrap("loss 1.0  ndcg@5 0.1  recall@5 0.2", 2, 24),
            "loss 1.0  ndcg@5 0.1\n  recall@5 0.2");
  EXPECT_EQ(wrap("a b c", 2, 24), "a b c");
  EXPECT_EQ(wrap("one two three four", 3, 10), "one two\n   three\n   four");
  EXPECT_EQ(wrap("short /a/very/long/path/that/stays tail", 2, 12),
            "short /a/very/long/path/that/stays\n  tail");
  EXPECT_EQ(wrap("", 2, 10), "");
}

TEST(Files, WriteErrorsNameTheCauseAndARemedy) {
  EXPECT_EQ(write_trouble(EACCES), "Permission denied; try a place where you may write");
  EXPECT_EQ(write_trouble(ENOSPC),
            "No space left on device; try to free some space, or another place");
  EXPECT_EQ(write_trouble(EFBIG),
            "File too large; try a higher `ulimit -f`, or another file system");
  EXPECT_EQ(write_trouble(0), "the disk may be full");
}

TEST(Files, ATmpdirThatIsMissingIsNamed) {
  const char* before = std::getenv("TMPDIR");
  const std::string kept = before ? before : "";
  setenv("TMPDIR", "/nowhere", 1);
  std::string said;
  try {
    unique_folder("convoy-test");
  } catch (const FileError& error) {
    said = error.what();
  }
  before ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
  EXPECT_NE(said.find("TMPDIR = /nowhere; try TMPDIR=/tmp"), std::string::npos) << said;
}

TEST(JsonText, TroubleIsToldWithoutTheLibrarysNames) {
  std::string said;
  try {
    parse_json("[1e999]", "x.json");
  } catch (const FileError& error) {
    said = error.what();
  }
  EXPECT_NE(said.find("x.json is not valid JSON: number overflow"), std::string::npos) << said;
  EXPECT_EQ(said.find("json.exception"), std::string::npos) << said;
  EXPECT_EQ(json_line({{"name", "caf\xe9"}}), "{\"name\":\"caf\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace convoy
