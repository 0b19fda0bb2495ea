#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <fstream>
#include <random>

#include "convoy/base/files.h"
#include "convoy/data/loader.h"
#include "convoy/data/parquet_files.h"
#include "tests/data/parquet_testing.h"

// Inputs that people have, and that break programs.
namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using namespace testing;

class HardInputs : public ::testing::Test {
 protected:
  void SetUp() override { folder_ = unique_folder("convoy-hard"); }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path file() const { return folder_ / "train.parquet"; }

  SessionLoader loader(std::vector<std::string> columns = {"items"}, int64_t budget = 1 << 28) {
    LoaderOptions options;
    options.selection.columns = std::move(columns);
    options.memory_budget = budget;
    options.shuffle_window = 256;
    return SessionLoader(ParquetFiles(file().string()), options);
  }

  /// Rows that an epoch delivers.
  static int64_t rows_of(SessionLoader& loader, int64_t epoch = 0) {
    const int64_t before = loader.stats().rows;
    loader.start(epoch);
    while (loader.next()) {
    }
    return loader.stats().rows - before;
  }

  fs::path folder_;
};

TEST_F(HardInputs, ANumberThatIsNoneIsNamedByColumnAndRow) {
  const float inf = INFINITY;
  for (float bad : {NAN, inf, -inf}) {
    write_parquet(file(), {{"items", int_lists({{1}, {2, 3}, {4}})},
                           {"price", float_lists({{1}, {2, bad}, {3}})}});
    auto sessions = loader({"items", "price"});
    EXPECT_MESSAGE(rows_of(sessions), "column 'price', row 1 of");
  }
  // A double beyond float's range is no number either.
  write_parquet(file(), {{"price", numbers<arrow::DoubleBuilder>({1.0, 1e300})}});
  auto sessions = loader({"price"});
  EXPECT_MESSAGE(rows_of(sessions), "row 1 of");
  EXPECT_MESSAGE(rows_of(sessions), "holds inf; expected finite numbers");
}

TEST_F(HardInputs, EmptySessionsAndSessionsOfOneAreDelivered) {
  write_parquet(file(), {{"items", int_lists({{}, {7}, {}, {1, 2}})}});
  auto sessions = loader();
  EXPECT_EQ(rows_of(sessions), 4);
  EXPECT_EQ(sessions.stats().short_rows, 3);
  write_parquet(file(), {{"items", int_lists({{}, {}})}});
  auto none = loader();
  EXPECT_EQ(rows_of(none), 2);
}

TEST_F(HardInputs, ADeltaEncodedColumnReadsAsAnyOther) {
  std::vector<std::vector<int64_t>> rows;
  std::vector<std::vector<float>> prices;
  std::mt19937_64 random(3);
  for (int64_t i = 0; i < 3000; ++i) {
    rows.emplace_back();
    prices.emplace_back();
    for (uint64_t n = random() % 6; n > 0; --n) {
      rows.back().push_back(static_cast<int64_t>(random() % 1000) - 3);
      prices.back().push_back(static_cast<float>(random() % 100) / 8);
    }
  }
  const std::vector<Named> columns{{"items", int_lists(rows)}, {"price", float_lists(prices)}};
  write_parquet(file(), columns);
  const Selection selection{{"items", "price"}, {}};
  const Rows plain = ParquetFiles(file().string()).read(0, selection);
  auto properties = parquet::WriterProperties::Builder()
                        .disable_dictionary()
                        ->encoding("items.list.element", parquet::Encoding::DELTA_BINARY_PACKED)
                        ->encoding("price.list.element", parquet::Encoding::BYTE_STREAM_SPLIT)
                        ->data_page_version(parquet::ParquetDataPageVersion::V2)
                        ->build();
  write_parquet(file(), columns, 1 << 20, properties);
  const Rows delta = ParquetFiles(file().string()).read(0, selection);
  EXPECT_EQ(delta.columns.at("items").ints, plain.columns.at("items").ints);
  EXPECT_EQ(delta.columns.at("items").offsets, plain.columns.at("items").offsets);
  EXPECT_EQ(delta.columns.at("price").floats, plain.columns.at("price").floats);
}

TEST_F(HardInputs, AHundredThousandRowGroupsOfOneRow) {
  constexpr int64_t kRows = 100000;
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < kRows; ++i) rows.push_back({i % 50 + 1, i % 7 + 1});
  write_parquet(file(), {{"items", int_lists(rows)}}, 1);
  for (int64_t budget : {int64_t{1} << 28, int64_t{1} << 16}) {  // kept, and streamed
    auto sessions = loader({"items"}, budget);
    sessions.start(0);
    std::vector<int64_t> seen(51);
    int64_t count = 0;
    while (auto step = sessions.next()) {
      for (const auto& micro_batch : step->micro_batches) {
        const auto& ids = micro_batch.columns.at("items").ints;
        for (size_t i = 0; i < ids.size(); i += 2, ++count) ++seen[static_cast<size_t>(ids[i])];
      }
      if (budget < 1 << 20 && count > 5000) break;  // enough of the slow way
    }
    if (budget > 1 << 20) {
      EXPECT_EQ(count, kRows);
      EXPECT_EQ(*std::min_element(seen.begin() + 1, seen.end()), kRows / 50);
    }
  }
}

TEST_F(HardInputs, AFileThatIsWrittenToIsNoticedOneThatIsReplacedIsNot) {
  std::vector<std::vector<int64_t>> rows(500, {1, 2, 3});
  write_parquet(file(), {{"items", int_lists(rows)}}, 100);
  auto replaced = loader({"items"}, 0);  // streamed: reads again each epoch
  EXPECT_EQ(rows_of(replaced), 500);
  write_parquet(folder_ / "new", {{"items", int_lists({{9, 9}})}});
  fs::rename(folder_ / "new", file());
  EXPECT_EQ(rows_of(replaced, 1), 500) << "the file that was opened is still there";

  write_parquet(file(), {{"items", int_lists(rows)}}, 100);
  auto written = loader({"items"}, 0);
  EXPECT_EQ(rows_of(written), 500);
  write_parquet(file(), {{"items", int_lists({{9, 9}})}});
  EXPECT_MESSAGE(rows_of(written, 1), "was written to while it was in use");
}

TEST_F(HardInputs, FilesOfOneDataSetMayDifferInWidth) {
  write_parquet(folder_ / "a.parquet", {{"items", lists<arrow::Int8Builder>({{1, 2}})}});
  write_parquet(folder_ / "b.parquet", {{"items", lists<arrow::Int32Builder>({{3, 4, 500}})}});
  write_parquet(folder_ / "c.parquet", {{"items", int_lists({{6}})}});
  const ParquetFiles all(folder_.string());
  EXPECT_EQ(all.read(1, {{"items"}, {}}).columns.at("items").ints,
            (std::vector<int64_t>{3, 4, 500}));
  LoaderOptions options;
  options.selection.columns = {"items"};
  SessionLoader sessions(all, options);
  EXPECT_EQ(rows_of(sessions), 3);
  write_parquet(folder_ / "d.parquet", {{"items", float_lists({{6}})}});
  EXPECT_MESSAGE(SessionLoader(ParquetFiles(folder_.string()), options), "d.parquet");
}

}  // namespace
}  // namespace convoy::data
