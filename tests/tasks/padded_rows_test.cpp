#include <fmt/format.h>

#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

// Folders of other programs, whose rows may be padded with 0.
namespace convoy {
namespace {

constexpr size_t kPaddedLength = 12;
using IdRows = std::vector<std::vector<int64_t>>;

class PaddedRows : public CommandTest {
 protected:
  /// IdRows of 3 to 12 items of people who walk round 40; of training the last item less.
  static IdRows rows(bool all) {
    IdRows out;
    for (int64_t user = 0; user < 60; ++user) {
      auto& row = out.emplace_back();
      const int64_t length = 3 + user * 7 % 10 - (all ? 0 : 1);
      for (int64_t i = 0; i < length; ++i) row.push_back(1 + (user * 3 + i + i * i % 3) % 40);
    }
    return out;
  }

  static IdRows padded(IdRows rows) {
    for (auto& row : rows) row.resize(kPaddedLength);
    return rows;
  }

  void write(const std::string& folder, const IdRows& train, const IdRows& valid) {
    fs::create_directories(folder_ / folder);
    for (const auto& [name, rows] : {std::pair("train.parquet", train), {"valid.parquet", valid}}) {
      data::testing::write_parquet(folder_ / folder / name,
                                   {{"item_id-list", data::testing::int_lists(rows)}});
    }
    write_file(folder_ / folder / "schema.json",
               R"({"feature": [{"name": "item_id-list", "type": "INT",
  "valueCount": {"min": 2, "max": 12}, "intDomain": {"min": 1, "max": 40, "isCategorical": true},
  "annotation": {"tag": ["item_id", "categorical", "list"]}}]})");
  }

  int train(const std::string& data, const std::string& to, const std::string& more = "") {
    return run(
        fmt::format("train --data.path {} --d_model 16 --n_layer 1 --n_head 2 --num_train_epochs 2 "
                    "--logging_steps 1 --learning_rate 1e-2 --threads 1 --output_dir {} {}",
                    data, to, more));
  }
};

TEST_F(PaddedRows, AreReadAsRowsOfTheirItems) {
  write("ragged", rows(false), rows(true));
  write("padded", padded(rows(false)), padded(rows(true)));
  ASSERT_EQ(train("ragged", "r"), 0) << output_;
  for (const char* excludes : {"false", "true"}) {
    for (const char* more : {"", "--max_length 6", "--max_length 6 --data.truncation keep_first"}) {
      SCOPED_TRACE(fmt::format("{} {}", excludes, more));
      const auto told = [&](const char* data) {
        EXPECT_EQ(run(fmt::format("eval r --data {} --exclude_seen {} {} --json > eval.json", data,
                                  excludes, more)),
                  0)
            << output_;
        auto out = json("eval.json");
        for (auto it = out.begin(); it != out.end();) {
          const bool of_time = it.key().find("_at_") == std::string::npos;
          it = of_time && it.key() != "eval_samples" ? out.erase(it) : std::next(it);
        }
        return out;
      };
      const auto ragged = told("ragged");
      const auto notes = output_;
      EXPECT_EQ(told("padded"), ragged);
      for (size_t at = 0; (at = output_.find("padded/", at)) != std::string::npos;) {
        output_.replace(at, 7, "ragged/");
      }
      EXPECT_EQ(output_, notes);
    }
  }
  ASSERT_EQ(train("padded", "rp"), 0) << output_;
  expect_near(losses("r"), losses("rp"));
  ASSERT_EQ(train("padded", "rc", "--max_length 6"), 0) << output_;
  EXPECT_FALSE(says("60 of 60 rows are longer")) << output_;
}

TEST_F(PaddedRows, AreReportedWhereTheyHaveNoTarget) {
  write("ragged", rows(false), rows(true));
  auto few = padded(rows(true));
  few[0] = {7, 0, 0, 0};
  few[1] = {0, 0, 0};
  write("few", rows(false), few);
  ASSERT_EQ(train("ragged", "r"), 0) << output_;
  ASSERT_EQ(run("eval r --data few"), 0) << output_;
  expect("2 rows of fewer than two items have no target: no metric counts them");
  ASSERT_EQ(run("predict r --data few --output p.csv"), 0) << output_;
  expect("1 row without an item: nothing is recommended");
  EXPECT_EQ(read_file(folder_ / "p.csv").find("\n1,"), std::string::npos);
}

// Padding is at the end of rows; elsewhere it would be read as an item.
TEST_F(PaddedRows, AreRefusedWithPaddingBeforeAnItem) {
  write("ragged", rows(false), rows(true));
  ASSERT_EQ(train("ragged", "r"), 0) << output_;
  auto front = rows(true), middle = rows(true);
  front[3].insert(front[3].begin(), {0, 0});
  middle[5][1] = 0;
  const std::string expected =
      "which is padding, before an item of 'item_id-list'; expected padding at the end of rows "
      "only; move it there, or leave it out";
  for (const auto& [bad, row] : {std::pair(front, 3), {middle, 5}}) {
    write("bad", bad, bad);
    for (const std::string command : {"eval r --data bad", "predict r --data bad"}) {
      EXPECT_EQ(run(command), 1) << output_;
      expect(fmt::format("row {} of bad/valid.parquet has 0, {}", row, expected));
    }
    EXPECT_EQ(train("bad", "rb"), 1) << output_;
    expect(fmt::format("row {} of bad/train.parquet has 0, {}", row, expected));
    ASSERT_EQ(run("data inspect bad/valid.parquet"), 0) << output_;
    expect(
        fmt::format("1 row has 0, which is padding, before an item (row {} of bad/valid.parquet "
                    "is the first)",
                    row));
    write("bad", rows(false), bad);  // what training evaluates on
    EXPECT_EQ(train("bad", "rb"), 1) << output_;
  }
}

}  // namespace
}  // namespace convoy
