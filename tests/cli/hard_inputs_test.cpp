#include "convoy/base/text.h"
#include "tests/cli/command_testing.h"

// What people feed the program, and what it needs to live.
namespace convoy {
namespace {

class HardInputs : public CommandTest {};

TEST_F(HardInputs, TenMillionRowsTrainInBoundedMemory) {
  ASSERT_EQ(run("data synthetic --output big --items 500 --rows 10000000 --min-length 2 "
                "--max-length 4"),
            0)
      << output_;
  fs::remove(folder_ / "big/valid.parquet");
  ASSERT_EQ(run("train --data.path big --d_model 8 --n_layer 1 --n_head 2 --threads 1 "
                "--per_device_train_batch_size 256 --max_steps 400 --output_dir out "
                "--save_strategy no"),
            0)
      << output_;
  EXPECT_LT(json("out/train_results.json")["peak_memory_bytes_per_rank"].get<double>(), 500 << 20);
}

TEST_F(HardInputs, EventsOutOfOrderTwiceAndInEveryScript) {
  write_file(folder_ / "events.csv",
             "user,item,time\n"
             "\u00c5sa,\u6771\u4eac,30\n"
             "\u00c5sa,caf\u00e9,10\n"
             "bob,\u6771\u4eac,5\n"
             "\u00c5sa,\U0001F600,20\n"
             "bob,caf\u00e9,1\n"
             "\u00c5sa,caf\u00e9,10\n"
             "bob,caf\u00e9,2\n");
  ASSERT_EQ(run("data sessions events.csv --user user --item item --time time --output s "
                "--validation none --drop-duplicates"),
            0)
      << output_;
  expect("1 with the user, item and time of another, dropped");
  ASSERT_EQ(run("train --data.path s --d_model 8 --n_layer 1 --n_head 2 --threads 1 --max_steps 2 "
                "--output_dir out --save_strategy no"),
            0)
      << output_;
  ASSERT_EQ(run("predict out --data s/train.parquet --top-k 3 --output top.csv"), 0) << output_;
  const auto top = read_file(folder_ / "top.csv");
  for (const char* raw : {"\u6771\u4eac", "caf\u00e9", "\U0001F600"}) {
    EXPECT_NE(top.find(raw), std::string::npos) << raw << " in " << top;
  }
}

TEST_F(HardInputs, WithoutMemoryTheErrorSaysWhatToTry) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes all addresses";
#endif
  make_sessions();
  EXPECT_EQ(shell("ulimit -v 6000000; $convoy train --data.path syn --d_model 20000 --n_layer 2 "
                  "--n_head 2 --threads 1 --max_steps 1"),
            1);
  expect("no memory left; try a smaller per_device_train_batch_size");
}

TEST_F(HardInputs, IdsMayHaveGaps) {
  write_file(folder_ / "events.csv",
             "user,item,time\n1,900000000000,1\n1,5,2\n1,5,3\n2,-7,1\n2,900000000000,2\n2,5,3\n");
  ASSERT_EQ(run("data sessions events.csv --user user --item item --time time --output s "
                "--validation none"),
            0)
      << output_;
  expect("items      3");
  ASSERT_EQ(run("train --data.path s --d_model 8 --n_layer 1 --n_head 2 --threads 1 --max_steps 2"),
            0)
      << output_;
}

}  // namespace
}  // namespace convoy
