#include "convoy/data/parquet_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "convoy/base/error.h"
#include "convoy/base/files.h"
#include "tests/data/parquet_testing.h"

namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using testing::float_lists;
using testing::int_lists;
using testing::ints;
using testing::write_parquet;

class ParquetFilesTest : public ::testing::Test {
 protected:
  ~ParquetFilesTest() override { fs::remove_all(folder_); }

  /// Writes one column named "x" and reads it back.
  Column read_x(const std::shared_ptr<arrow::Array>& array, int64_t group_size = 1000) {
    write_parquet(folder_ / "x.parquet", {{"x", array}}, group_size);
    ParquetFiles dataset((folder_ / "x.parquet").string());
    return dataset.read(0, {{"x"}, {}}).columns.at("x");
  }

  const fs::path folder_ = unique_folder("convoy-dataset-test");
};

TEST_F(ParquetFilesTest, ReadsWholeNumbersOfEveryWidth) {
  const std::vector<int64_t> expected = {1, 0, 100};
  EXPECT_EQ(read_x(ints({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::Int8Builder>({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::Int16Builder>({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::Int32Builder>({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::UInt8Builder>({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::UInt32Builder>({1, 0, 100})).ints, expected);
  EXPECT_EQ(read_x(testing::numbers<arrow::UInt64Builder>({1, 0, 100})).ints, expected);
  EXPECT_MESSAGE(read_x(testing::numbers<arrow::UInt64Builder>({1, ~uint64_t{0}})),
                 "holds id 18446744073709551615; expected 0 to");
  EXPECT_MESSAGE(read_x(testing::numbers<arrow::UInt64Builder>({1, uint64_t{1} << 63})),
                 "row 1 of");
  auto flags = testing::numbers<arrow::BooleanBuilder, bool>({true, false, true});
  EXPECT_EQ(read_x(flags).ints, (std::vector<int64_t>{1, 0, 1}));
}

TEST_F(ParquetFilesTest, ReadsTimesInSecondsWhateverTheirUnit) {
  const std::vector<int64_t> expected = {1700000000, -1};
  int64_t per_second = 1;
  for (const auto unit : {arrow::TimeUnit::SECOND, arrow::TimeUnit::MILLI, arrow::TimeUnit::MICRO,
                          arrow::TimeUnit::NANO}) {
    const auto type = arrow::timestamp(unit);
    auto times = std::make_shared<arrow::TimestampBuilder>(type, arrow::default_memory_pool());
    testing::ok(times->AppendValues({1700000000 * per_second, -per_second}));
    EXPECT_EQ(read_x(times->Finish().ValueOrDie()).ints, expected) << type->ToString();
    arrow::ListBuilder lists(arrow::default_memory_pool(), times);
    testing::ok(lists.Append());
    testing::ok(times->AppendValues({1700000000 * per_second, -per_second}));
    EXPECT_EQ(read_x(lists.Finish().ValueOrDie()).ints, expected) << type->ToString();
    per_second *= 1000;
  }
  EXPECT_EQ(read_x(testing::numbers<arrow::Date32Builder>({19753, -1})).ints,
            (std::vector<int64_t>{19753 * 86400, -86400}));
  EXPECT_EQ(read_x(testing::numbers<arrow::Date64Builder>({int64_t{19753} * 86400000})).ints,
            (std::vector<int64_t>{19753 * 86400}));
  arrow::DurationBuilder pauses(arrow::duration(arrow::TimeUnit::MILLI),
                                arrow::default_memory_pool());
  testing::ok(pauses.AppendValues({1500, -250}));
  EXPECT_EQ(read_x(pauses.Finish().ValueOrDie()).floats, (std::vector<float>{1.5, -0.25}));
}

TEST_F(ParquetFilesTest, ReadsFractionsAsFloat32) {
  Column column = read_x(testing::numbers<arrow::DoubleBuilder>({0.5, -2.25}));
  EXPECT_EQ(column.kind, Column::Float32);
  EXPECT_EQ(column.floats, (std::vector<float>{0.5f, -2.25f}));
  EXPECT_EQ(read_x(testing::numbers<arrow::FloatBuilder>({1.5f})).floats, std::vector<float>{1.5f});
}

TEST_F(ParquetFilesTest, ReadsListsOfEveryKind) {
  const std::vector<int64_t> values = {1, 2, 3}, offsets = {0, 2, 2, 3};
  for (const auto& array :
       {int_lists({{1, 2}, {}, {3}}), testing::lists<arrow::Int32Builder>({{1, 2}, {}, {3}}),
        testing::lists<arrow::Int64Builder, arrow::LargeListBuilder>({{1, 2}, {}, {3}})}) {
    Column column = read_x(array);
    EXPECT_TRUE(column.is_list);
    EXPECT_EQ(column.ints, values);
    EXPECT_EQ(column.offsets, offsets);
  }
  auto items = std::make_shared<arrow::DoubleBuilder>();
  arrow::FixedSizeListBuilder fixed(arrow::default_memory_pool(), items, 2);
  for (int row = 0; row < 2; ++row) {
    testing::ok(fixed.Append());
    testing::ok(items->AppendValues({row + 0.0, row + 0.5}));
  }
  Column column = read_x(fixed.Finish().ValueOrDie());
  EXPECT_EQ(column.floats, (std::vector<float>{0, 0.5, 1, 1.5}));
  EXPECT_EQ(column.offsets, (std::vector<int64_t>{0, 2, 4}));
}

TEST_F(ParquetFilesTest, ReadsDictionaries) {
  auto words = ints({10, 20});
  auto codes = testing::numbers<arrow::Int32Builder>({1, 0, 1});
  auto type = arrow::dictionary(arrow::int32(), arrow::int64());
  auto array = arrow::DictionaryArray::FromArrays(type, codes, words).ValueOrDie();
  EXPECT_EQ(read_x(array).ints, (std::vector<int64_t>{20, 10, 20}));
}

TEST_F(ParquetFilesTest, StreamsAnyStretchAcrossRowGroupsAndFiles) {
  std::vector<int64_t> all(5000);
  std::vector<std::vector<int64_t>> sessions;
  for (int64_t i = 0; i < 5000; ++i) {
    all[i] = i;
    sessions.push_back(std::vector<int64_t>(static_cast<size_t>(i % 4), i));
  }
  write_parquet(folder_ / "a.parquet", {{"id", ints(all)}, {"list", int_lists(sessions)}}, 3000);
  write_parquet(folder_ / "b.parquet", {{"id", ints(all)}, {"list", int_lists(sessions)}}, 10000);
  ParquetFiles dataset(folder_.string());
  ASSERT_EQ(dataset.group_rows(), (std::vector<int64_t>{3000, 2000, 5000}));
  auto stream = dataset.stream({{1, 10, 1500}, {2, 4000, 4001}, {0, 0, 2}}, {{"id", "list"}, {}});
  std::vector<int64_t> expected;
  for (int64_t i = 3010; i < 4500; ++i) expected.push_back(i);
  expected.insert(expected.end(), {4000, 0, 1});
  std::vector<int64_t> seen;
  for (Rows rows = stream->next(7); rows.num_rows > 0; rows = stream->next(7)) {
    const Column& list = rows.columns.at("list");
    for (int64_t row = 0; row < rows.num_rows; ++row) {
      const int64_t id = rows.columns.at("id").ints[row];
      seen.push_back(id);
      ASSERT_EQ(list.end(row) - list.begin(row), id % 4);
      for (int64_t i = list.begin(row); i < list.end(row); ++i) ASSERT_EQ(list.ints[i], id);
    }
  }
  EXPECT_EQ(seen, expected);
}

TEST_F(ParquetFilesTest, RowGroupsMayBeEmpty) {
  const auto schema = arrow::schema({arrow::field("x", arrow::int64())});
  const auto path = folder_ / "x.parquet";
  auto out = arrow::io::FileOutputStream::Open(path.string()).ValueOrDie();
  auto writer =
      parquet::arrow::FileWriter::Open(*schema, arrow::default_memory_pool(), out).ValueOrDie();
  for (const std::vector<int64_t>& group :
       std::vector<std::vector<int64_t>>{{}, {1, 2}, {}, {}, {3}, {}}) {
    const auto table = arrow::Table::Make(schema, {ints(group)});
    testing::ok(writer->WriteTable(*table, 100));
  }
  testing::ok(writer->Close());
  testing::ok(out->Close());
  ParquetFiles dataset(path.string());
  std::vector<RowRange> all;
  for (const int64_t rows : dataset.group_rows()) all.push_back({std::ssize(all), 0, rows});
  EXPECT_EQ(all.size(), 6U);
  const auto rows = dataset.stream(all, {{"x"}, {}})->next(10);
  EXPECT_EQ(rows.columns.at("x").ints, (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(ParquetFilesTest, DecodedBytesAreThoseTaken) {
  write_parquet(folder_ / "x.parquet",
                {{"a", int_lists({{1, 2, 3}, {4}})}, {"b", float_lists({{1, 2, 3}, {4}})}});
  ParquetFiles dataset((folder_ / "x.parquet").string());
  const Selection selection{{"a", "b"}, {}};
  EXPECT_EQ(dataset.decoded_bytes(selection), 4 * 8 + 3 * 8 + 4 * 4 + 3 * 8);
  EXPECT_EQ(dataset.read(0, selection).bytes(), dataset.decoded_bytes(selection));
}

TEST_F(ParquetFilesTest, ColumnsNotSelectedMayHoldAnything) {
  arrow::StringBuilder words;
  testing::ok(words.AppendValues(std::vector<std::string>{"a", "b"}));
  arrow::Int64Builder holes;
  testing::ok(holes.AppendNulls(2));
  write_parquet(folder_ / "x.parquet", {{"word", words.Finish().ValueOrDie()},
                                        {"id", ints({1, 2})},
                                        {"hole", holes.Finish().ValueOrDie()}});
  ParquetFiles dataset((folder_ / "x.parquet").string());
  EXPECT_EQ(dataset.read(0, {{"id"}, {}}).columns.at("id").ints, (std::vector<int64_t>{1, 2}));
  EXPECT_MESSAGE(dataset.read(0, {{"word"}, {}}), "is string; expected numbers");
  EXPECT_MESSAGE(dataset.read(0, {{"hole"}, {}}), "column 'hole', row 0 of");
  EXPECT_MESSAGE(dataset.read(0, {{"idd"}, {}}), "did you mean 'id'?");
  EXPECT_MESSAGE(dataset.read(0, {{"idd"}, {}}), "it has word, id, hole");
  EXPECT_MESSAGE(dataset.read(0, {{}, {}}), "no column");
}

TEST_F(ParquetFilesTest, NamesTheRowOfANull) {
  auto values = std::make_shared<arrow::Int64Builder>();
  arrow::ListBuilder builder(arrow::default_memory_pool(), values);
  for (int row = 0; row < 2000; ++row) {
    testing::ok(builder.Append());
    testing::ok(row == 1700 ? values->AppendNull() : values->Append(1));
  }
  EXPECT_MESSAGE(read_x(builder.Finish().ValueOrDie(), 10000), "column 'x', row 1700 of");
  for (int row = 0; row < 3; ++row) testing::ok(row == 2 ? builder.AppendNull() : builder.Append());
  EXPECT_MESSAGE(read_x(builder.Finish().ValueOrDie()), "row 2 of");
}

TEST_F(ParquetFilesTest, ListsOfARowHaveOneLength) {
  write_parquet(folder_ / "x.parquet",
                {{"a", int_lists({{1}, {2, 3}, {4}})}, {"b", float_lists({{1}, {2}, {3}})}}, 2);
  ParquetFiles dataset((folder_ / "x.parquet").string());
  EXPECT_MESSAGE(dataset.read(0, {{"a", "b"}, {}}), "row 1 of");
  EXPECT_MESSAGE(dataset.read(0, {{"a", "b"}, {}}), "2 values in column 'a' but 1 in 'b'");
  EXPECT_EQ(dataset.read(1, {{"a", "b"}, {}}).num_rows, 1);
}

TEST_F(ParquetFilesTest, IdsStayInTheirDomain) {
  formats::Schema schema = formats::Schema::from_json(
      R"({"feature": [{"name": "a", "type": "INT", "intDomain": {"max": 5, "isCategorical": true}},
                      {"name": "b", "type": "INT", "intDomain": {"max": 5}}]})",
      "test");
  write_parquet(folder_ / "x.parquet",
                {{"a", int_lists({{0, 5}, {}, {1, 6}})}, {"b", ints({-9, 6, 7})}}, 2);
  ParquetFiles dataset((folder_ / "x.parquet").string());
  const Selection selection = select(schema, {"a", "b"});
  EXPECT_EQ(dataset.read(0, selection).num_rows, 2);
  EXPECT_MESSAGE(dataset.read(1, selection), "column 'a', row 2 of");
  EXPECT_MESSAGE(dataset.read(1, selection), "holds id 6; expected 0 to 5");
  write_parquet(folder_ / "x.parquet", {{"a", ints({3, -1})}, {"b", ints({0, 0})}});
  EXPECT_MESSAGE(ParquetFiles((folder_ / "x.parquet").string()).read(0, selection), "holds id -1");
}

// Without isCategorical a tag says that values are rows of a table.
TEST_F(ParquetFilesTest, TagsMakeIds) {
  for (const char* tag : {"categorical", "item_id"}) {
    const auto schema = formats::Schema::from_json(
        fmt::format(R"({{"feature": [{{"name": "a", "type": "INT", "intDomain": {{"max": 5}},
                                     "annotation": {{"tag": ["{}"]}}}}]}})",
                    tag),
        "test");
    for (const int64_t id : {6, -1}) {
      write_parquet(folder_ / "x.parquet", {{"a", ints({0, id})}});
      EXPECT_MESSAGE(ParquetFiles((folder_ / "x.parquet").string()).read(0, select(schema, {"a"})),
                     fmt::format("holds id {}; expected 0 to 5", id).c_str());
    }
  }
}

TEST_F(ParquetFilesTest, SaysWhatIsWrongWithAFile) {
  const fs::path path = folder_ / "x.parquet";
  EXPECT_MESSAGE(ParquetFiles{path.string()}, "there is no file");
  write_file(path, "");
  EXPECT_MESSAGE(ParquetFiles{path.string()}, "is empty (0 bytes)");
  for (const char* text : {"PA", "hello, I am a text file"}) {
    write_file(path, text);
    EXPECT_MESSAGE(ParquetFiles{path.string()}, "is not a Parquet file");
  }
  write_parquet(path, {{"x", ints({1, 2, 3})}});
  const std::string whole = read_file(path);
  for (size_t size : {size_t{4}, size_t{9}, whole.size() / 2, whole.size() - 1}) {
    write_file(path, whole.substr(0, size));
    EXPECT_MESSAGE(ParquetFiles{path.string()}, "is cut short");
  }
  std::string broken = whole;
  broken.replace(whole.size() - 60, 40, std::string(40, '\xff'));
  write_file(path, broken);
  EXPECT_MESSAGE(ParquetFiles{path.string()}, "may be damaged");
  EXPECT_THROW(ParquetFiles{path.string()}, FileError);
}

TEST_F(ParquetFilesTest, DamagedPagesAreAnErrorNotACrash) {
  std::vector<std::vector<int64_t>> rows;
  for (int64_t i = 0; i < 500; ++i) rows.push_back({i, i * 7, i * i});
  const fs::path path = folder_ / "x.parquet";
  write_parquet(path, {{"x", int_lists(rows)}});
  const std::string whole = read_file(path);
  int errors = 0;
  for (size_t at = 4; at + 200 < whole.size() && at < 2000; at += 37) {
    std::string broken = whole;
    broken.replace(at, 8, "\xff\xff\xff\xff\xff\xff\xff\xff");
    std::ofstream(path, std::ios::binary) << broken;
    try {
      ParquetFiles(path.string()).read(0, {{"x"}, {}});
    } catch (const Error&) {
      ++errors;
    }
  }
  EXPECT_GT(errors, 0);
}

TEST_F(ParquetFilesTest, FindsFilesByFolderAndPattern) {
  EXPECT_MESSAGE(ParquetFiles{folder_.string()}, "holds no *.parquet");
  EXPECT_MESSAGE(ParquetFiles{(folder_ / "*.parquet").string()}, "no file matches");
  write_parquet(folder_ / "b.parquet", {{"x", ints({2})}});
  write_parquet(folder_ / "a.parquet", {{"x", ints({1})}});
  write_parquet(folder_ / ".c.parquet", {{"x", ints({3})}});
  EXPECT_EQ(ParquetFiles(folder_.string()).files().front().path().filename(), "a.parquet");
  EXPECT_EQ(ParquetFiles(folder_.string()).num_rows(), 2);
  EXPECT_EQ(ParquetFiles((folder_ / "?.parquet").string()).num_rows(), 2);
  write_parquet(folder_ / "b.parquet", {{"x", int_lists({{2}})}});
  EXPECT_MESSAGE(ParquetFiles(folder_.string()).check({{"x"}, {}}),
                 "expected one type in all files");
}

}  // namespace
}  // namespace convoy::data
