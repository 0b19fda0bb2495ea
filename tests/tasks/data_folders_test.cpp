#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// What --data of eval and predict may be, beside a folder with validation rows.
namespace convoy {
namespace {

class DataFolders : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    std::string events = "user_id,item_id,timestamp\n";
    for (int user = 0; user < 12; ++user) {
      for (int i = 0; i < 8; ++i) {
        events +=
            fmt::format("{},i{},{}\n", user, (user + i) % 10, 1700006400 + 86400 * (i / 4) + i);
      }
    }
    write_file(folder_ / "events.csv", events);
    ASSERT_EQ(run("data sessions events.csv --output d"), 0) << output_;
    ASSERT_EQ(run("train --data.path d --d_model 8 --n_layer 1 --n_head 2 --max_steps 2 "
                  "--threads 1 --output_dir out"),
              0)
        << output_;
  }
};

TEST_F(DataFolders, TrainingRowsAreReadAsTheyAreWithoutValidation) {
  ASSERT_EQ(run("data sessions events.csv --output whole --validation none --ids-from d"), 0);
  ASSERT_FALSE(fs::exists(folder_ / "whole/valid.parquet"));
  ASSERT_EQ(run("train --data.path whole --d_model 8 --n_layer 1 --n_head 2 --max_steps 1 "
                "--threads 1 --output_dir blind"),
            0)
      << output_;
  expect("nothing is evaluated: there are no validation rows");
  ASSERT_EQ(run("predict out --data whole --top-k 1 --output told.csv"), 0) << output_;
  expect("whole has no valid.parquet: the rows of train.parquet are read");
  const auto told = read_file(folder_ / "told.csv");
  ASSERT_EQ(run("predict out --data whole/train.parquet --top-k 1 --output told.csv"), 0);
  EXPECT_FALSE(says("has no valid.parquet"));
  EXPECT_EQ(read_file(folder_ / "told.csv"), told);
  ASSERT_EQ(run("eval out --data whole"), 0) << output_;
  expect("whole/train.parquet, 12 rows");
}

TEST_F(DataFolders, APipeIsCalledSo) {
  ASSERT_EQ(shell("cat d/valid.parquet | $convoy eval out --data -"), 0) << output_;
  expect("the piped input, 12 rows");
  EXPECT_FALSE(says("/proc/")) << output_;
}

TEST_F(DataFolders, ErrorsNameAWindowToTry) {
  ASSERT_EQ(run("data sessions events.csv --output w --windows day --ids-from d"), 0) << output_;
  for (const std::string command : {"eval out --data w", "predict out --data w"}) {
    EXPECT_EQ(run(command), 2) << command;
    expect("w is a folder of windows; expected the data of one; try --data w/0002");
  }
  EXPECT_EQ(run("data inspect w"), 2);
  expect(
      "w is a folder of windows, whose other files are lists of ids; try convoy data inspect "
      "w/0002");
  EXPECT_EQ(run("data inspect w/0002"), 0) << output_;
  ASSERT_EQ(run("eval out --data w/0002"), 0) << output_;
}

}  // namespace
}  // namespace convoy
