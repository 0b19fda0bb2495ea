#include <cmath>

#include "tests/cli/command_testing.h"

// Whether a reader can tell if a number is good: defaults that train, errors, what popularity
// reaches, and what --help says.
namespace convoy {
namespace {

class GoodNumbers : public CommandTest {};

const std::string kSmall = " --d_model 16 --n_layer 1 --n_head 2 --threads 1 ";

TEST_F(GoodNumbers, ABareTrainingIsTwiceAsGoodAsPopularityAndSaysSo) {
  ASSERT_EQ(run("data synthetic --output shop --items 200 --rows 4000"), 0) << output_;
  ASSERT_EQ(run("train --data.path shop --output_dir out --threads 1"), 0) << output_;
  for (const char* part :
       {"evaluated after step 32: loss ", "step  50/640", "last loss ", "(mean of the run ",
        "+- is one standard error", "NDCG of popularity", "@5", "@20"}) {
    expect(part);
  }
  const auto results = json("out/eval_results.json");
  const double ndcg = results["eval_ndcg_at_10"];
  const double popular = results["eval_popularity_baseline_ndcg_at_10"];
  EXPECT_GT(popular, 0);
  EXPECT_GT(ndcg, 2 * popular);
  EXPECT_NEAR(results["eval_recall_at_10_stderr"].get<double>(),
              std::sqrt(results["eval_recall_at_10"].get<double>() *
                        (1 - results["eval_recall_at_10"].get<double>()) /
                        (results["eval_samples"].get<double>() - 1)),
              1e-12);
  const auto kept = read_file(folder_ / "out/run.toml");
  for (const char* line : {"learning_rate = 0.001", "per_device_train_batch_size = 128",
                           "eval_strategy = \"epoch\"", "logging_steps = 50"}) {
    EXPECT_NE(kept.find(line), std::string::npos) << line;
  }
  // Where its training data is gone, the run's own items.parquet has the counts.
  fs::rename(folder_ / "shop/train.parquet", folder_ / "moved.parquet");
  ASSERT_EQ(run("eval out"), 0) << output_;
  expect("NDCG of popularity");
  ASSERT_EQ(run("eval out --json"), 0) << output_;
  EXPECT_EQ(parse_json(output_, "eval")["eval_popularity_baseline_ndcg_at_10"], popular);
}

TEST_F(GoodNumbers, AreTheSameOnTwoRanks) {
  make_sessions(300);
  const auto train = "train --data.path syn --max_steps 4 --per_device_train_batch_size ";
  ASSERT_EQ(run(train + ("16 --output_dir one" + kSmall)), 0) << output_;
  ASSERT_EQ(run("eval one --json"), 0) << output_;
  const auto one = parse_json(output_, "one");
  ASSERT_EQ(run("eval one --json --nproc 2"), 0) << output_;
  const auto two = parse_json(output_, "two");
  for (const auto& [name, value] : one.items()) {
    const bool timed = name.ends_with("runtime") || name.ends_with("per_second");
    if (timed || name == "eval_loss") continue;
    EXPECT_EQ(two[name], value) << name;
  }
  EXPECT_TRUE(one.contains("eval_mrr_at_20_stderr"));
  EXPECT_TRUE(one.contains("eval_popularity_baseline_mrr_at_20"));
}

TEST_F(GoodNumbers, DefaultsOfOtherTasksFollowTheirReference) {
  ASSERT_EQ(run("train --print-config"), 0) << output_;
  expect("per_device_train_batch_size = 128");
  ASSERT_EQ(run("train --help"), 0) << output_;
  expect("peak learning rate [0.001]");
  for (const char* other : {"train --family gpt2", "train --parity transformers4rec"}) {
    ASSERT_EQ(run(std::string(other) + " --print-config"), 0) << output_;
    for (const char* line :
         {"per_device_train_batch_size = 8", "learning_rate = 5e-05", "num_train_epochs = 3",
          "logging_steps = 500", "eval_strategy = \"no\""}) {
      expect(line);
    }
  }
  make_sessions();
  fs::remove(folder_ / "syn/valid.parquet");
  ASSERT_EQ(run("train --data.path syn --max_steps 1" + kSmall), 0) << output_;
  EXPECT_EQ(run("train --data.path syn --max_steps 1 --eval_strategy epoch" + kSmall), 2);
  expect("eval_strategy = epoch needs evaluation data");
}

TEST_F(GoodNumbers, MaskedItemsAreLearntFromWeightsByTheWidth) {
  ASSERT_EQ(run("train --body bert --print-config"), 0) << output_;
  expect("\ninitializer_range = 0.06928\n");
  expect("embedding_initializer_range = 0.06928");
  ASSERT_EQ(run("train --body bert --d_model 256 --initializer_range 0.02 --print-config"), 0);
  expect("\ninitializer_range = 0.02\n");
  expect("embedding_initializer_range = 0.03464");
  ASSERT_EQ(run("train --body bert --parity transformers4rec --print-config"), 0) << output_;
  expect("\ninitializer_range = 0.01\n");
  expect("embedding_initializer_range = 0.05");
  ASSERT_EQ(run("train --body gpt2 --print-config"), 0) << output_;
  expect("\ninitializer_range = 0.02\n");
  // The weights that were made so learn in fewer steps.
  ASSERT_EQ(run("data synthetic --output shop --items 100 --rows 4000"), 0) << output_;
  const auto train =
      "train --data.path shop --body bert --num_train_epochs 15 --learning_rate 3e-3 --d_model 32 "
      "--n_layer 1 --n_head 2 --threads 1 --eval_strategy no --output_dir ";
  ASSERT_EQ(run(train + std::string("wide")), 0) << output_;
  ASSERT_EQ(run(train + std::string("narrow --initializer_range 0.02 "
                                    "--embedding_initializer_range 0.02")),
            0)
      << output_;
  EXPECT_LT(json("wide/eval_results.json")["eval_loss"].get<double>() + 0.2,
            json("narrow/eval_results.json")["eval_loss"].get<double>());
}

TEST_F(GoodNumbers, ScheduleThatRaisesTheRateIsTold) {
  make_sessions();
  const auto train = "train --data.path syn --output_dir out --per_device_train_batch_size 16 " +
                     kSmall + "--num_train_epochs ";
  ASSERT_EQ(run(train + "2"), 0) << output_;
  ASSERT_EQ(run(train + "4 --resume_from_checkpoint latest"), 0) << output_;
  expect(
      "warning: the learning rate rises from 1.25e-04 to 5.00e-04: its schedule now ends at "
      "step 16 instead of 8");
  ASSERT_EQ(run(train + "6 --resume_from_checkpoint latest --lr_scheduler_type constant"), 0);
  EXPECT_FALSE(says("the learning rate rises")) << output_;
}

TEST_F(GoodNumbers, HelpBeginsWithACommandsOwnOptions) {
  ASSERT_EQ(run("predict --help"), 0) << output_;
  const auto place = [&](const char* what) {
    EXPECT_NE(output_.find(what), std::string::npos) << what << "\n" << output_;
    return output_.find(what);
  };
  EXPECT_LT(place("[predict]"), place("{\"items\": [\"item-3\", \"new\"], \"top_k\": 1}"));
  EXPECT_LT(place("candidates    ids to choose among"), place("[parallel]"));
  ASSERT_EQ(run("eval --help"), 0) << output_;
  EXPECT_LT(place("--top_ks"), place("[parallel]"));
}

TEST_F(GoodNumbers, FlagsOfHuggingFacesTrainerNameAnAlternative) {
  for (const char* family : {"", "--family gpt2 ", "--family bert --task classification "}) {
    EXPECT_EQ(run(std::string("train ") + family + "--push_to_hub"), 2) << output_;
    expect("--push_to_hub: nothing is uploaded");
    expect("huggingface-cli upload");
    EXPECT_EQ(run(std::string("train ") + family + "--fsdp full_shard"), 2) << output_;
    expect("try --zero 3");
  }
  make_sessions();
  ASSERT_EQ(run("train --data.path syn --max_steps 1 --dataloader_num_workers 4 --torch_compile" +
                kSmall),
            0)
      << output_;
  expect("without effect here: --dataloader_num_workers (a thread reads ahead of each rank)");
}

}  // namespace
}  // namespace convoy
