#include "convoy/base/json.h"
#include "tests/cli/ranks_testing.h"

// A table of items that real processes keep by rows.
namespace convoy {
namespace {

TEST_F(Ranks, ATableByRowsIsTheWholeOne) {
  const auto common = "train" + kTiny +
                      "--max_steps 12 --sampled_softmax true --max_n_samples 10 --eval_strategy "
                      "steps --eval_steps 12 --save_strategy no ";
  ASSERT_EQ(run(common + "--gradient_accumulation_steps 2 --output_dir whole"), 0) << output_;
  ASSERT_EQ(run(common + "--row_tables true --nproc 2 --output_dir rows"), 0) << output_;
  // Without decay and after so few steps not a bit is rounded otherwise.
  EXPECT_TRUE(model("whole") == model("rows"));
  const auto results = [this](const std::string& run) {
    return parse_json(read_file(folder_ / run / "all_results.json"), run);
  };
  const auto whole = results("whole"), rows = results("rows");
  EXPECT_EQ(rows.at("eval_ndcg_at_10"), whole.at("eval_ndcg_at_10"));
  EXPECT_NEAR(rows.at("eval_loss").get<double>() / whole.at("eval_loss").get<double>(), 1, 1e-5);
  ASSERT_EQ(run("eval rows --json"), 0) << output_;
  EXPECT_EQ(parse_json(output_, "eval").at("eval_ndcg_at_10"), whole.at("eval_ndcg_at_10"));
  ASSERT_EQ(run("predict rows --top-k 2 --rows 2"), 0) << output_;
}

TEST_F(Ranks, ATableByRowsTellsWhatItDoesNotGoWith) {
  const auto common = "train" + kTiny + "--max_steps 2 --row_tables true ";
  EXPECT_EQ(run(common), 2);
  expect("row_tables = true needs a table of which a step reads some rows");
  const auto sampled = common + "--sampled_softmax true ";
  EXPECT_EQ(run(sampled + "--pipeline_parallel_size 2"), 2);
  expect("row_tables = true does not go with pipeline_parallel_size = 2; try data ranks");
  EXPECT_EQ(run(sampled + "--nproc 2 --zero 1 --shard_ranks 1"), 2);
  expect("row_tables = true does not go with several state replicas (shard_ranks)");
  EXPECT_EQ(run(sampled + "--offload_optimizer disk --offload_dir ."), 2);
  expect("row_tables = true does not go with offload");
  EXPECT_EQ(run(sampled + "--optim lion_32bit"), 2);
  expect("got optim = lion_32bit");
}

}  // namespace
}  // namespace convoy
