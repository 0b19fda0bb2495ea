#include <cstring>

#include "convoy/formats/npy.h"
#include "convoy/prepare/items.h"
#include "tests/tasks/recommender_testing.h"

namespace convoy {
namespace {

class ExportVectors : public RecommenderTest {
 protected:
  struct Matrix {
    int64_t rows = 0, width = 0;
    std::vector<float> numbers;
  };
  Matrix read(const std::string& file) const {
    const auto array = formats::read_npy(folder_ / file);
    Matrix out{array.shape.at(0), array.shape.at(1), {}};
    out.numbers.resize(array.bytes.size() / sizeof(float));
    std::memcpy(out.numbers.data(), array.bytes.data(), array.bytes.size());
    return out;
  }
};

TEST_F(ExportVectors, ProductsAreTheScoresOfPredict) {
  for (const char* body : {"sasrec", "bert --temperature 2"}) {
    train(fmt::format("--overwrite_output_dir --exclude_seen false --model.body {}", body));
    fs::remove_all(folder_ / "vectors");
    ASSERT_EQ(run("export vectors out --output vectors --data syn --nproc 2"), 0) << output_;
    expect("items.npy [30 x 8]");
    const auto items = read("vectors/items.npy"), sessions = read("vectors/sessions.npy");
    const auto ids = prepare::read_raw_ids(folder_ / "vectors/items.parquet", "item_id");
    const auto rows = prepare::read_raw_ids(folder_ / "vectors/sessions.parquet", "row");
    ASSERT_EQ(items.rows, 30);
    ASSERT_EQ(std::ssize(ids), 30);
    const auto asked = requests(30);
    ASSERT_EQ(sessions.rows, std::ssize(asked));
    ASSERT_EQ(std::ssize(rows), sessions.rows);
    const Recommender recommender(folder_ / "out");
    for (int64_t row = 0; row < sessions.rows; row += 3) {
      EXPECT_EQ(rows[static_cast<size_t>(row)], std::to_string(row));
      std::map<std::string, double> products;
      for (int64_t item = 0; item < items.rows; ++item) {
        double& product = products[ids[static_cast<size_t>(item)]];
        for (int64_t i = 0; i < items.width; ++i) {
          product += double{items.numbers[static_cast<size_t>(item * items.width + i)]} *
                     sessions.numbers[static_cast<size_t>(row * items.width + i)];
        }
      }
      for (const auto& item : recommender.recommend(asked[static_cast<size_t>(row)]).items) {
        EXPECT_NEAR(products.at(item.item_id), item.score, 1e-5) << body;
      }
    }
  }
}

TEST_F(ExportVectors, AreOfItemsThatAreRecommendedAndOfRowsWithSuch) {
  std::string events = "user_id,item_id,timestamp\n";
  for (int user = 0; user < 30; ++user) {
    for (int i = 0; i < 6; ++i) events += fmt::format("u{},i{},{}\n", user, (user + i) % 9, i);
    // The last item of a history, which no training row has.
    events += fmt::format("u{},{},9\n", user, user == 0 ? "rare" : "i1");
  }
  write_file(folder_ / "events.csv", events);
  ASSERT_EQ(run("data sessions events.csv --output syn"), 0) << output_;
  train();
  write_file(folder_ / "later.csv",
             "user_id,item_id,timestamp\nx,rare,10\nx,rare,11\nx,rare,12\ny,i1,10\ny,i2,11\n"
             "y,i3,12\n");
  ASSERT_EQ(run("data sessions later.csv --output later --ids-from syn"), 0) << output_;
  ASSERT_EQ(run("export vectors out -o vectors --data later --format fvecs"), 0) << output_;
  expect("left out   1 row without an item that the model knows");
  const auto ids = prepare::read_raw_ids(folder_ / "vectors/items.parquet", "item_id");
  EXPECT_EQ(ids.size(), 9U);
  EXPECT_EQ(std::ranges::count(ids, "rare"), 0);
  EXPECT_EQ(prepare::read_raw_ids(folder_ / "vectors/sessions.parquet", "user_id"),
            std::vector<std::string>{"y"});
  EXPECT_EQ(fs::file_size(folder_ / "vectors/sessions.fvecs"), 4U + 8U * sizeof(float));
}

TEST_F(ExportVectors, MistakesAreToldInALine) {
  train();
  EXPECT_EQ(run("export vectors out --output out"), 1) << output_;
  EXPECT_EQ(run("export vectors nowhere --output vectors"), 2) << output_;
  EXPECT_EQ(run("export vectors out --output vectors --rows 3"), 2) << output_;
  expect("--rows has no effect without --data");
  EXPECT_EQ(run("export vectors out"), 2) << output_;
  expect("--output is required");
  EXPECT_FALSE(fs::exists(folder_ / "vectors"));
}

}  // namespace
}  // namespace convoy
