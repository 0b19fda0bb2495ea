#include <gtest/gtest.h>

#include "convoy/base/files.h"
#include "convoy/data/loader.h"
#include "tests/data/parquet_testing.h"

// Columns of vectors: one a row, and one for each item of a row.
namespace convoy::data {
namespace {

namespace fs = std::filesystem;
using testing::float_lists;
using testing::int_lists;
using testing::vector_lists;
using testing::write_parquet;
using Floats = std::vector<float>;

class VectorColumns : public ::testing::Test {
 protected:
  ~VectorColumns() override { fs::remove_all(folder_); }

  std::string file() const { return (folder_ / "x.parquet").string(); }

  void write(const std::shared_ptr<arrow::Array>& array, int64_t group_size = 1000) const {
    write_parquet(file(), {{"x", array}}, group_size);
  }

  Rows read(int64_t width) const {
    return ParquetFiles(file()).read(0, {{"x"}, {}, {{"x", width}}});
  }

  const fs::path folder_ = unique_folder("convoy-vectors-test");
};

TEST_F(VectorColumns, AreOneARowOrOneForEachItem) {
  write(float_lists({{1, 2}, {3, 4}, {5, 6}}));
  auto column = read(2).columns.at("x");
  EXPECT_FALSE(column.is_list);
  EXPECT_EQ(column.num_values(), 3);
  EXPECT_EQ(column.floats, (Floats{1, 2, 3, 4, 5, 6}));
  write(vector_lists({{{1, 2}}, {}, {{3, 4}, {5, 6}}}));
  column = read(2).columns.at("x");
  EXPECT_TRUE(column.is_list);
  EXPECT_EQ(column.offsets, (std::vector<int64_t>{0, 1, 1, 3}));
  EXPECT_EQ(column.floats, (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(read(0).columns.at("x").width, 2) << "as the first";
  arrow::FixedSizeListBuilder fixed(arrow::default_memory_pool(),
                                    std::make_shared<arrow::FloatBuilder>(), 2);
  for (const float first : {1.0F, 3.0F}) {
    testing::ok(fixed.Append());
    testing::ok(
        static_cast<arrow::FloatBuilder*>(fixed.value_builder())->AppendValues({first, first + 1}));
  }
  write(fixed.Finish().ValueOrDie());
  EXPECT_EQ(read(2).columns.at("x").floats, (Floats{1, 2, 3, 4}));
}

TEST_F(VectorColumns, ErrorsNameTheRowThatDoesNotFit) {
  write(float_lists({{1, 2}, {3, 4}, {5}}));
  EXPECT_MESSAGE(read(2),
                 "column 'x', row 2 of " + file() + " holds a vector of 1 number; expected 2");
  EXPECT_MESSAGE(read(3), "row 0");
  write(vector_lists({{{1, 2}}, {}, {{3, 4}, {5, 6, 7}}}));
  EXPECT_MESSAGE(read(2), "row 2 of " + file() + " holds a vector of 3 numbers; expected 2");
  EXPECT_MESSAGE(read(0), "row 2");
  write(vector_lists({{{1, 2}}, {{3, 4}, {5, NAN}}}));
  EXPECT_MESSAGE(read(2), "row 1 of " + file() + " holds nan; expected finite numbers");
  write(testing::vector_lists({{{1, 2}}, {{3, 4}}}, /*nulls=*/true));
  EXPECT_MESSAGE(read(2), "row 1 of " + file() + " holds a null");
  write(int_lists({{1, 2}}));
  EXPECT_MESSAGE(read(2), "column 'x' of " + file() +
                              " is list<element: int64>; expected vectors: a list of fractions");
  write(vector_lists({{{1, 2}}}));
  EXPECT_MESSAGE(ParquetFiles(file()).check({{"x"}, {}}), "expected numbers or lists of numbers");
}

// Of long sessions the vectors of the items that stay, decoded at once or a window at a time.
TEST_F(VectorColumns, StandBesideTheirItemsInBatches) {
  std::vector<std::vector<int64_t>> items;
  std::vector<std::vector<Floats>> of_items;
  std::vector<Floats> of_rows;
  for (int64_t row = 0; row < 300; ++row) {
    items.emplace_back();
    of_items.emplace_back();
    for (int64_t i = 0; i < 1 + row % 6; ++i) {
      items.back().push_back(1 + (row * 7 + i) % 50);
      const auto id = static_cast<float>(items.back().back());
      of_items.back().push_back({id, -id, id / 2});
    }
    of_rows.push_back({static_cast<float>(items.back().size()), 1});
  }
  write_parquet(file(),
                {{"items", int_lists(items)},
                 {"one", float_lists(of_rows)},
                 {"each", vector_lists(of_items)}},
                70);
  for (const int64_t budget : {int64_t{1} << 30, int64_t{0}}) {
    LoaderOptions options;
    options.selection = {{"each", "items", "one"}, {}, {{"each", 3}, {"one", 2}}};
    options.max_length = 4;
    options.layout.per_device_batch = 7;
    options.shuffle = true;
    options.memory_budget = budget;
    options.shuffle_window = budget > 0 ? 0 : 4;
    SessionLoader loader(ParquetFiles(file()), options);
    loader.start(0);
    int64_t rows = 0;
    while (auto step = loader.next()) {
      for (const auto& batch : step->micro_batches) {
        const auto& ids = batch.columns.at("items").ints;
        const auto& each = batch.columns.at("each").floats;
        const auto& one = batch.columns.at("one").floats;
        ASSERT_EQ(each.size(), 3 * ids.size());
        ASSERT_EQ(std::ssize(one), 2 * batch.rows);
        for (size_t i = 0; i < ids.size(); ++i) {
          const auto id = static_cast<float>(ids[i]);
          EXPECT_EQ((Floats{each[3 * i], each[3 * i + 1], each[3 * i + 2]}),
                    (Floats{id, -id, id / 2}));
        }
        for (int64_t row = 0; row < batch.rows; ++row) {
          const auto length = batch.lengths[static_cast<size_t>(row)];
          EXPECT_EQ(std::min(4.0F, one[2 * static_cast<size_t>(row)]), static_cast<float>(length));
        }
        rows += batch.num_samples;
      }
    }
    EXPECT_EQ(rows, 300);
  }
}

}  // namespace
}  // namespace convoy::data
