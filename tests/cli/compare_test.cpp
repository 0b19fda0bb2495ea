#include "tests/cli/ranks_testing.h"

namespace convoy {
namespace {

class CompareCommand : public Ranks {
 protected:
  void train(const std::string& folder, const std::string& more, const std::string& fault = "") {
    ASSERT_EQ(shell(fault + "$convoy train" + kModel + "--output_dir " + folder +
                    " --logging_steps 1 --save_strategy no --sum_steps 1 --quiet " + more),
              0)
        << output_;
  }
  /// What `convoy compare --json` finds, by name of the numbers.
  Json compared(const std::string& a, const std::string& b, int code) {
    EXPECT_EQ(run("compare " + a + " " + b + " --json"), code) << output_;
    Json out = parse_json(output_, "what it printed");
    for (const auto& line : out["numbers"]) out[line["name"].get<std::string>()] = line;
    return out;
  }

  static constexpr const char* kModel =
      " --data.path syn --d_model 8 --n_layer 2 --n_head 2 --threads 1 --max_steps 6 "
      "--learning_rate 1e-2 --global_batch_size 8 --per_device_train_batch_size 2 ";
};

TEST_F(CompareCommand, FindsLayoutsOfTheSameBitsEqual) {
  train("one", "");
  train("two", "--nproc 2 --zero 2");
  train("stages", "--nproc 2 --pipeline_parallel_size 2");
  for (const char* other : {"two", "stages"}) {
    const auto found = compared("one", other, 0);
    EXPECT_EQ(found["rows"]["steps"], 6) << found;
    EXPECT_EQ(found["rows"]["differs_from"], 0) << found;
    EXPECT_TRUE(found["to_rounding"].get<bool>()) << found;
  }
  const auto two = compared("one", "two", 0);
  EXPECT_TRUE(two["same_bits"].get<bool>()) << two;
  EXPECT_EQ(two["weights"]["steps"], 6);
}

TEST_F(CompareCommand, NamesTheFirstStepOfOtherRowsAndTheOption) {
  train("one", "");
  train("two", "--data_seed 9");
  EXPECT_EQ(run("compare one two"), 1) << output_;
  expect("The runs read other rows: others at step 1.");
  expect("train.data_seed: none and 9");
}

TEST_F(CompareCommand, SaysThatTwoRunsReadOtherData) {
  train("one", "");
  ASSERT_EQ(run("data synthetic --output other --items 30 --rows 200 --seed 5"), 0) << output_;
  train("two", "--data.path other");
  EXPECT_EQ(run("compare one two"), 1) << output_;
  expect("The runs read other rows: others at step 1.");
  expect("/syn and ");
}

TEST_F(CompareCommand, NamesTheStepAndTheParameterWhereNumbersPart) {
  train("one", "--nproc 2");
  train("two", "--nproc 2", "CONVOY_FAULT=double@1:reduce:3 ");
  const auto found = compared("one", "two", 1);
  EXPECT_EQ(found["rows"]["differs_from"], 0) << found;
  EXPECT_EQ(found["weights"]["equal_until"], 2) << found;
  EXPECT_EQ(found["weights"]["differs_from"], 3) << found;
  EXPECT_FALSE(found["to_rounding"].get<bool>());
}

TEST_F(CompareCommand, FollowsARunThatWasResumedAndWentBack) {
  train("one", "");
  ASSERT_EQ(run(std::string("train") + kModel +
                "--output_dir two --logging_steps 1 --save_steps 2 --sum_steps 1 --quiet "
                "--learning_rate 3e-2"),
            0)
      << output_;
  ASSERT_EQ(run(std::string("train") + kModel +
                "--output_dir three --logging_steps 1 --save_steps 2 --sum_steps 1 --quiet "
                "--max_steps 4 --lr_scheduler_type constant"),
            0)
      << output_;
  ASSERT_EQ(run(std::string("train") + kModel +
                "--output_dir three --logging_steps 1 --save_steps 2 --sum_steps 1 --quiet "
                "--lr_scheduler_type constant --resume_from_checkpoint three/checkpoint-2"),
            0)
      << output_;
  EXPECT_EQ(compared("one", "three", 1)["rows"]["steps"], 6);
  EXPECT_EQ(compared("one", "three", 1)["rows"]["differs_from"], 0);
  EXPECT_EQ(compared("one", "two", 1)["rows"]["differs_from"], 0);
}

TEST_F(CompareCommand, NamesTheFirstStepThatIsBeyondRounding) {
  const std::string more = "--max_steps 12 --learning_rate 1e-3 --per_device_train_batch_size 8 ";
  train("one", more);
  train("tensor", more + "--nproc 2 --tensor_parallel_size 2");
  train("faulty", more + "--nproc 2 --tensor_parallel_size 2", "CONVOY_FAULT=double@1:layer:9 ");
  EXPECT_EQ(run("compare one tensor"), 0) << output_;
  EXPECT_EQ(run("compare one faulty"), 1) << output_;
  expect("From step 1 on they differ to rounding, but from step 9 on they compute other numbers.");
  EXPECT_EQ(run("compare tensor faulty"), 1) << output_;
  expect("but compute other numbers from step 9 on.");
}

TEST_F(CompareCommand, TakesOptionsOfARunThatDiedFromItsCheckpoint) {
  train("whole", "");
  ASSERT_NE(shell(std::string("CONVOY_FAULT=nan@0:backward:5 $convoy train") + kModel +
                  "--output_dir died --logging_steps 1 --save_steps 3 --quiet"),
            0);
  EXPECT_EQ(run("compare whole died"), 1) << output_;
  expect("died logged no step after 4 of 6, whole up to step 6.");
  EXPECT_FALSE(says("not given")) << output_;
  fs::remove_all(folder_ / "died/checkpoint-3");
  EXPECT_EQ(run("compare whole died"), 1) << output_;
  expect("died saved nothing, so its options are not known.");
  EXPECT_FALSE(says("not given")) << output_;
}

TEST_F(CompareCommand, SaysWhatIsNoRun) {
  write_file(folder_ / "x/note", "");
  EXPECT_EQ(run("compare x x"), 1);
  expect("x is no output folder of a training: it has no log.jsonl");
  write_file(folder_ / "x/log.jsonl", "{\"message\": \"a\"}\n{\"st");
  EXPECT_EQ(run("compare x x"), 1);
  expect("x/log.jsonl logs no step");
}

}  // namespace
}  // namespace convoy
