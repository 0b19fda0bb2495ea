#include <fmt/format.h>

#include "tests/cli/command_testing.h"

// Data whose columns are not those that a model was trained with.
namespace convoy {
namespace {

class OtherColumns : public CommandTest {
 protected:
  void SetUp() override {
    CommandTest::SetUp();
    for (int day = 0; day < 2; ++day) {
      std::string events = "user_id,item_id,timestamp,colour,price\n";
      for (int user = 0; user < 12; ++user) {
        for (int i = 0; i < 8; ++i) {
          const int item = (user + i * (day + 1)) % 9;
          events += fmt::format("u{},i{},{},{},{}.5\n", user, item, day * 100 + i,
                                day == 1 && i == 2 ? "green"
                                : item % 2 == 0    ? "red"
                                                   : "blue",
                                item);
        }
      }
      write_file(folder_ / fmt::format("day{}.csv", day), events);
    }
    prepare("d0", 0, "--features colour,price");
    ASSERT_EQ(train("--data.path d0 --output_dir r0"), 0) << output_;
  }

  void prepare(const std::string& to, int day, const std::string& more) {
    ASSERT_EQ(run(fmt::format("data sessions day{}.csv --output {} {}", day, to, more)), 0)
        << output_;
  }

  int train(const std::string& more) {
    return run(
        "train --d_model 8 --n_layer 2 --n_head 2 --max_steps 2 --per_device_train_batch_size 8 "
        "--threads 1 " +
        more);
  }

  int go_on(const std::string& more) {
    return run("train r0/run.toml --model_name_or_path r0 --overwrite_output_dir --output_dir r1 " +
               more);
  }
};

TEST_F(OtherColumns, IdsAreNotReadAsNumbers) {
  prepare("d1", 1, "--ids-from d0 --features colour,price:categorical");
  for (const char* command : {"eval r0 --data d1", "predict r0 --data d1"}) {
    EXPECT_EQ(run(command), 1) << command << output_;
    expect("column 'price-list' is categorical in d1/schema.json; expected continuous");
    expect("--features price:continuous");
  }
  EXPECT_NE(go_on("--data.path d1"), 0);
  expect("reads price-list as continuous, and this data has it as categorical");
  prepare("d2", 1, "--ids-from d0 --features colour,price");
  ASSERT_EQ(run("eval r0 --data d2"), 0) << output_;
  ASSERT_EQ(go_on("--data.path d2"), 0) << output_;
  expect("1 of 3 values of colour-list is new");
}

TEST_F(OtherColumns, WeightsOfTheEarlierModelAreNotDropped) {
  prepare("d1", 1, "--ids-from d0");
  EXPECT_NE(go_on("--data.path d1"), 0) << output_;
  expect("the model in r0 reads colour-list, price-list, which this data, or data.features");
  EXPECT_NE(go_on("--data.path d0 --n_layer 1"), 0) << output_;
  expect("r0 has the weight transformer.h.1.");
  expect("which this model does not have");
  EXPECT_NE(go_on("--data.path d0 --max_length 5"), 0) << output_;
  expect("try --max_length 20");
  EXPECT_FALSE(fs::exists(folder_ / "r1/model.safetensors"));

  // A run that reads less says how today's data is read likewise.
  ASSERT_EQ(train("--data.path d0 --data.features item_id-list --output_dir few"), 0) << output_;
  ASSERT_NE(train("--data.path d0 --model_name_or_path few --output_dir more"), 0);
  expect("the model in few does not read colour-list, price-list");
  expect("try --data.features item_id-list");
  // What is predicted beside the items may be left out.
  ASSERT_EQ(run("data sessions day0.csv --output dt --features price:sum"), 0) << output_;
  ASSERT_EQ(train("--data.path dt --prediction_tasks next-item,regression:price --output_dir rt"),
            0)
      << output_;
  ASSERT_EQ(train("--data.path dt --data.features item_id-list --model_name_or_path rt "
                  "--output_dir ru"),
            0)
      << output_;
}

TEST_F(OtherColumns, RowsToEvaluateOnMayBeOfALaterPreparation) {
  ASSERT_EQ(shell("echo 'u1,new,300,red,1' >> day1.csv; echo 'u2,new,301,red,1' >> day1.csv"), 0);
  prepare("d1", 1, "--ids-from d0 --features colour,price");
  ASSERT_EQ(train("--data.path d0 --data.valid d1/valid.parquet --exclude_seen false "
                  "--output_dir r1"),
            0)
      << output_;
  expect("2 rows with a target that the model does not know: misses");
  const auto trained = json("r1/eval_results.json");
  ASSERT_EQ(run("eval r1 --data d1 --json > eval.json"), 0) << output_;
  for (const char* name : {"eval_ndcg_at_10", "eval_popularity_baseline_ndcg_at_10"}) {
    EXPECT_EQ(json("eval.json").at(name), trained.at(name)) << name;
  }
  prepare("anew", 1, "--features colour,price");
  EXPECT_NE(train("--data.path d0 --data.valid anew/valid.parquet --output_dir r2"), 0);
  expect("expected ids that keep their numbers");
}

}  // namespace
}  // namespace convoy
