#include "tests/cli/command_testing.h"

namespace convoy {
namespace {

/// Negatives by the counts of the training data.
class PopularityNegatives : public CommandTest {
 protected:
  int train(const std::string& more) {
    return run(
        "train --data.path syn --d_model 8 --n_layer 1 --n_head 2 --max_steps 6 --threads 1 "
        "--learning_rate 1e-2 --sampled_softmax true --max_n_samples 20 --logging_steps 1 "
        "--save_strategy no --overwrite_output_dir " +
        more);
  }
};

TEST_F(PopularityNegatives, FollowTheCountsInEveryLayout) {
  ASSERT_EQ(run("data synthetic --output syn --items 100 --rows 300 --max-length 8"), 0) << output_;
  const std::string popular = "--negative_sampling popularity --per_device_train_batch_size ";
  ASSERT_EQ(train(popular + "16 --output_dir one"), 0) << output_;
  for (const char* layout : {"8 --nproc 2", "8 --nproc 2 --row_tables true",
                             "8 --pipeline_parallel_size 2 --gradient_accumulation_steps 2"}) {
    ASSERT_EQ(train(popular + layout + " --output_dir other"), 0) << layout << output_;
    expect_near(losses("one"), losses("other"));
  }
  // Of alpha 0 all items are alike.
  ASSERT_EQ(train(popular + "16 --negative_alpha 0 --output_dir flat"), 0) << output_;
  ASSERT_EQ(train("--per_device_train_batch_size 16 --output_dir uniform"), 0) << output_;
  expect_near(losses("flat"), losses("uniform"));
  EXPECT_FALSE(model_of("flat") == model_of("one"));
  // Trained models need no counts.
  ASSERT_EQ(run("eval one"), 0) << output_;
  EXPECT_EQ(train("--negative_alpha 0.5 --output_dir x"), 2);
  expect("negative_alpha");
  expect("try --negative_sampling popularity");
}

}  // namespace
}  // namespace convoy
