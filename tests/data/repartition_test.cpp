#include "convoy/data/tools/repartition.h"

#include <gtest/gtest.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>

#include <algorithm>

#include "convoy/data/tools/inspect.h"
#include "tests/data/parquet_testing.h"
#include "tests/prepare/sessions_testing.h"

namespace convoy::data {
namespace {

using prepare::testing::error_of;
using prepare::testing::Folder;
using prepare::testing::int_rows;

std::filesystem::path write_rows(const std::filesystem::path& file, int64_t rows,
                                 int64_t row_group_size) {
  std::vector<int64_t> ids;
  std::vector<std::vector<int64_t>> lists;
  arrow::StringBuilder words;
  for (int64_t row = 0; row < rows; ++row) {
    ids.push_back(row);
    lists.emplace_back(static_cast<size_t>(row % 4), row);
    testing::ok(words.Append("w" + std::to_string(row)));
  }
  testing::write_parquet(file,
                         {{"id", testing::ints(ids)},
                          {"items", testing::int_lists(lists)},
                          {"word", words.Finish().ValueOrDie()}},
                         row_group_size);
  return file;
}

std::vector<int64_t> groups_after(const std::filesystem::path& input, RepartitionOptions options) {
  options.input = input;
  options.output = input.parent_path() / "out.parquet";
  const RepartitionReport report = repartition(options);
  const ParquetFile file(options.output);
  const ParquetFile before(input);
  for (size_t c = 0; c < before.columns().size(); ++c) {
    EXPECT_EQ(file.columns()[c].type, before.columns()[c].type);
  }
  EXPECT_EQ(report.new_groups, file.num_row_groups());
  EXPECT_EQ(report.max_group_rows,
            *std::max_element(file.group_rows().begin(), file.group_rows().end()));
  EXPECT_EQ(int_rows(options.output, "id"), int_rows(input, "id"));
  EXPECT_EQ(int_rows(options.output, "items"), int_rows(input, "items"));
  return file.group_rows();
}

// As Spark has timestamps and decimals.
TEST(Repartition, KeepsPhysicalTypes) {
  Folder folder;
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::NANO),
                                arrow::default_memory_pool());
  arrow::Decimal128Builder prices(arrow::decimal128(9, 2));
  for (int64_t row = 0; row < 4; ++row) {
    testing::ok(times.Append(row));
    testing::ok(prices.Append(arrow::Decimal128(row)));
  }
  const auto table = arrow::Table::Make(
      arrow::schema({arrow::field("time", times.type()), arrow::field("price", prices.type())}),
      {times.Finish().ValueOrDie(), prices.Finish().ValueOrDie()});
  const auto types_of = [](const std::filesystem::path& file) {
    const auto schema = parquet::ParquetFileReader::OpenFile(file.string())->metadata()->schema();
    return std::pair(schema->Column(0)->physical_type(), schema->Column(1)->physical_type());
  };
  for (const bool old : {true, false}) {
    const auto input = folder / "in.parquet", output = folder / "out.parquet";
    parquet::WriterProperties::Builder style;
    parquet::ArrowWriterProperties::Builder arrow_style;
    if (old) {
      style.enable_store_decimal_as_integer();
      arrow_style.enable_deprecated_int96_timestamps();
    }
    const auto out = arrow::io::FileOutputStream::Open(input.string()).ValueOrDie();
    testing::ok(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 4,
                                           style.build(), arrow_style.build()));
    testing::ok(out->Close());
    const auto report = repartition({.input = input, .output = output, .partitions = 2});
    EXPECT_EQ(types_of(output), types_of(input));
    EXPECT_EQ(types_of(input).first == parquet::Type::INT96, old);
    EXPECT_TRUE(report.changes.empty()) << report.changes[0];
  }
}

TEST(Repartition, RefusesAFileWithoutRows) {
  Folder folder;
  const auto input = write_rows(folder / "in.parquet", 0, 4);
  for (const auto& options : {RepartitionOptions{.input = input, .partitions = 2},
                              RepartitionOptions{.input = input, .ranks = 2}}) {
    EXPECT_HAS(error_of<UsageError>([&] { repartition(options); }), "has no rows");
  }
}

TEST(Repartition, RowGroupSizes) {
  Folder folder;
  const auto input = write_rows(folder / "in.parquet", 11, 3);
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(groups_after(input, {.row_group_size = 4}), (Sizes{4, 4, 3}));
  EXPECT_EQ(groups_after(input, {.row_group_size = 1000}), (Sizes{11}));
  EXPECT_EQ(groups_after(input, {.row_group_size = INT64_MAX}), (Sizes{11}));
  EXPECT_EQ(groups_after(input, {.partitions = 4}), (Sizes{2, 3, 3, 3}));
  EXPECT_EQ(groups_after(input, {.partitions = 11}), Sizes(11, 1));
  EXPECT_EQ(groups_after(input, {.ranks = 2}), (Sizes{2, 3, 3, 3}));  // 4 groups already
  EXPECT_EQ(groups_after(input, {.ranks = 3}), (Sizes{3, 4, 4}));
}

TEST(Repartition, EveryRankGetsTheSameRows) {
  Folder folder;
  const auto input = write_rows(folder / "in.parquet", 10007, 700);  // 15 row groups
  for (int64_t ranks : {2, 4, 7, 64}) {
    const auto groups = groups_after(input, {.ranks = ranks});
    EXPECT_EQ(static_cast<int64_t>(groups.size()) % ranks, 0);
    auto [small, large] = std::minmax_element(groups.begin(), groups.end());
    EXPECT_LE(*large - *small, 1);
    for (const DealtShare& share : rank_shares(groups, ranks, 32)) {
      EXPECT_LE(std::abs(share.group_rows - 10007 / ranks), 1);
    }
  }
}

TEST(Repartition, ReplacesTheFileAndKeepsOtherColumns) {
  Folder folder;
  const auto file = write_rows(folder / "in.parquet", 9, 9);
  const auto ids = int_rows(file, "id");
  repartition({.input = file, .partitions = 3});
  const ParquetFile after(file);
  EXPECT_EQ(after.group_rows(), (std::vector<int64_t>{3, 3, 3}));
  EXPECT_EQ(after.columns()[2].name, "word");
  EXPECT_EQ(after.columns()[2].type, "string");
  EXPECT_EQ(int_rows(file, "id"), ids);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 1);  // nothing half written stays
}

TEST(Repartition, EachColumnKeepsItsCompression) {
  Folder folder;
  const auto file = folder / "in.parquet";
  parquet::WriterProperties::Builder properties;
  properties.compression("a", parquet::Compression::GZIP);
  properties.compression("b.list.element", parquet::Compression::ZSTD);
  testing::write_parquet(file,
                         {{"a", testing::ints({1, 2, 3, 4})},
                          {"b", testing::int_lists({{1}, {2}, {3}, {4}})},
                          {"c", testing::ints({1, 2, 3, 4})}},
                         1 << 20, properties.build());
  repartition({.input = file, .partitions = 2});
  const auto metadata = parquet::ParquetFileReader::OpenFile(file.string())->metadata();
  ASSERT_EQ(metadata->num_row_groups(), 2);
  const auto group = metadata->RowGroup(1);
  EXPECT_EQ(group->ColumnChunk(0)->compression(), parquet::Compression::GZIP);
  EXPECT_EQ(group->ColumnChunk(1)->compression(), parquet::Compression::ZSTD);
  EXPECT_EQ(group->ColumnChunk(2)->compression(), parquet::Compression::UNCOMPRESSED);
}

TEST(Repartition, RefusesAndLeavesTheInputAlone) {
  Folder folder;
  const auto file = write_rows(folder / "in.parquet", 5, 5);
  const std::string bytes = read_file(file);
  auto usage = [&](RepartitionOptions options) {
    options.input = file;
    return error_of<UsageError>([&] { repartition(options); });
  };
  EXPECT_NE(usage({}).find("got none of --row-group-size"), std::string::npos);
  EXPECT_NE(usage({.row_group_size = 1, .ranks = 1}).find("got several of"), std::string::npos);
  EXPECT_NE(usage({.partitions = -1}).find("--partitions is -1"), std::string::npos);
  EXPECT_NE(usage({.ranks = 6}).find("has 5 rows; expected at least one for each of 6"),
            std::string::npos);
  EXPECT_EQ(read_file(file), bytes);
  const auto cut = folder.write("cut.parquet", bytes.substr(0, bytes.size() / 2));
  EXPECT_NE(error_of([&] { repartition({.input = cut, .partitions = 1}); }).find("cut short"),
            std::string::npos);
  const auto out = folder.write("file", "in the way") / "out.parquet";
  EXPECT_NE(error_of([&] {
              repartition({.input = file, .output = out, .partitions = 1});
            }).find("cannot create folder"),
            std::string::npos);
}

}  // namespace
}  // namespace convoy::data
