#include <gtest/gtest.h>

#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

/// Row groups of 100 and 10 rows over two ranks: the positions of an epoch go beyond its rows.
TEST_F(CommandTest, AStepBeyondTheRowsOfUnequalRowGroupsStandsInMidEpoch) {
  make_sessions(110);
  const auto file = folder_ / "syn/train.parquet";
  const auto ids = data::testing::read_int_lists(file, "item_id-list");
  ASSERT_GE(ids.size(), 110U);
  data::testing::write_parquet(
      file, {{"item_id-list", data::testing::int_lists({ids.begin(), ids.begin() + 110})}}, 100);
  const auto train = "train" + kTiny +
                     "--data.partition row_groups --save_strategy steps --save_steps 9 "
                     "--per_device_train_batch_size 8 --output_dir out ";
  ASSERT_EQ(run(train + "--nproc 2 --max_steps 9"), 0) << output_;
  const auto state = json("out/checkpoint-9/trainer_state.json");
  ASSERT_EQ(state.at("epoch_index"), 0);
  ASSERT_GT(state.at("epoch_position").get<int64_t>(), 110);
  EXPECT_EQ(run(train + "--max_steps 12 --resume_from_checkpoint latest"), 2) << output_;
  expect("stands in mid-epoch");
  EXPECT_EQ(run(train + "--nproc 2 --max_steps 12 --resume_from_checkpoint latest"), 0) << output_;
}

}  // namespace
}  // namespace convoy
