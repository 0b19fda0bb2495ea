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
  expect("wrote top.csv (2 rows, 3 items each)");
  ASSERT_EQ(run("predict out --data s/train.parquet --top-k 9 --exclude-seen --output seen.csv"),
            0);
  expect("(2 rows, 0 to 1 item each)");
  const auto top = read_file(folder_ / "top.csv");
  for (const char* raw : {"\u6771\u4eac", "caf\u00e9", "\U0001F600"}) {
    EXPECT_NE(top.find(raw), std::string::npos) << raw << " in " << top;
  }
}

TEST_F(HardInputs, RefusesImpossibleTrainingsAtTheStart) {
  make_sessions();
  const auto train = "train" + kTiny + "--max_steps 5 ";
  EXPECT_EQ(run(train + "--features user"), 2);
  expect("'user'");
  EXPECT_EQ(run(train + "--features item_id-list,item_id-list"), 2);
  expect("'item_id-list' twice");
  EXPECT_EQ(run(train + "--trace ."), 2);
  expect("output.trace = . is a folder");
  ASSERT_EQ(shell("mkfifo pipe"), 0);
  EXPECT_EQ(run(train + "--trace pipe"), 2);
  expect("output.trace = pipe is no regular file");
  EXPECT_EQ(run(train + "--trace /proc/none/t.json"), 1);
  EXPECT_EQ(run(train + "--logging_dir events"), 2);
  expect("has no effect with train.report_to = none; try --report_to tensorboard");
  write_file(folder_ / "run.toml", "[model]\nd_model = 8\nn_embd = 16\n");
  EXPECT_EQ(run("train run.toml --data.path syn"), 2);
  expect("names one option twice: model.d_model and model.n_embd");
  // Sessions of one item have nothing to predict.
  write_file(folder_ / "ones.csv", "user,item,time\n1,5,1\n2,6,1\n3,7,1\n");
  ASSERT_EQ(run("data sessions ones.csv --user user --item item --time time --output ones "
                "--min-length 1 --validation none"),
            0)
      << output_;
  EXPECT_EQ(run("train --data.path ones --threads 1 --num_train_epochs 2"), 2);
  expect("no row of the training data has a target");
  EXPECT_EQ(run("data sessions ones.csv --user user --item item --time none --output no "
                "--min-length 1 --validation none --drop-duplicates"),
            2);
  expect("--drop-duplicates compares times");
}

TEST_F(HardInputs, AFolderInTransformers4RecsFormTrainsFromProtobufText) {
  make_sessions();
  const auto schema = json("syn/schema.json");
  std::string text;
  for (const auto& feature : schema["feature"]) {
    const auto& domain = feature["intDomain"];
    text += "feature { name: " + feature["name"].dump() + " type: INT ";
    if (feature.contains("valueCount")) text += "value_count { min: 2 max: 20 } ";
    text += "int_domain { min: 0 max: " + domain["max"].get<std::string>() +
            " is_categorical: true } annotation {";
    for (const auto& tag : feature["annotation"]["tag"]) text += " tag: " + tag.dump();
    text += " } }\n";
  }
  write_file(folder_ / "syn/schema.pbtxt", text);
  fs::remove(folder_ / "syn/schema.json");
  ASSERT_EQ(run("data inspect syn/train.parquet"), 0) << output_;
  expect("item_id");
  ASSERT_EQ(run("train" + kTiny + "--max_steps 3 --output_dir out"), 0) << output_;
  ASSERT_EQ(run("eval out --data syn"), 0) << output_;
  expect("syn/valid.parquet");
}

TEST_F(HardInputs, OutOfMemoryErrorSaysWhatToTry) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer takes all addresses";
#endif
  make_sessions(3000);
  EXPECT_EQ(shell("ulimit -v 6000000; $convoy train --data.path syn --d_model 8 --n_layer 1 "
                  "--n_inner 40000 --n_head 2 --threads 1 --max_steps 1 "
                  "--per_device_train_batch_size 2400"),
            1);
  expect("[memory] there is no memory left for ");
  expect("this process holds ");
  expect("`ulimit -v` allows 5.72 GiB, and ");
  expect("try a smaller per_device_train_batch_size");
  EXPECT_NE(shell("CONVOY_FAULT=oom@1:forward:1 $convoy launch -n 2 train" + kTiny), 0);
  expect("error on rank 1 of 2");
  expect("[memory] there is no memory left; this process holds ");
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
