#include "convoy/tasks/session/training_rows.h"
#include "tests/cli/command_testing.h"
#include "tests/data/parquet_testing.h"

namespace convoy {
namespace {

/// Negatives that are the other targets of a step.
class InBatch : public CommandTest {
 protected:
  int train(const std::string& more) {
    return run(
        "train --data.path syn --d_model 8 --n_layer 1 --n_head 2 --max_steps 6 --threads 1 "
        "--learning_rate 1e-2 --sampled_softmax true --negative_sampling in_batch "
        "--logging_steps 1 --save_strategy no --overwrite_output_dir " +
        more);
  }
};

// Of an epoch's last step, a row, one of two ranks has nothing.
TEST_F(InBatch, AreThoseOfTheWholeStepInEveryLayout) {
  ASSERT_EQ(run("data synthetic --output syn --items 100 --rows 49 --max-length 8"), 0) << output_;
  const std::string rows = "--per_device_train_batch_size ";
  ASSERT_EQ(train(rows + "16 --output_dir one"), 0) << output_;
  for (const std::string layout :
       {"4 --gradient_accumulation_steps 2 --nproc 2 --zero 2", "8 --nproc 2 --row_tables true",
        "8 --strategy dp --replicas 2",
        "8 --pipeline_parallel_size 2 --gradient_accumulation_steps 2"}) {
    ASSERT_EQ(train(rows + layout + " --output_dir other"), 0) << layout << output_;
    expect_near(losses("one"), losses("other"));
  }
  ASSERT_EQ(run("eval one"), 0) << output_;
  EXPECT_EQ(train("--max_n_samples 9 --output_dir x"), 2);
  expect("max_n_samples has no effect with negative_sampling = in_batch");
  EXPECT_EQ(train("--negative_alpha 0.5 --output_dir x"), 2);
  expect("try --negative_sampling popularity");
}

TEST_F(InBatch, AreCorrectedByTheTargetsThatTrainingHas) {
  using namespace data::testing;
  fs::create_directories(folder_);
  const auto file = folder_ / "train.parquet";
  write_parquet(file, {{"item_id-list", int_lists({{1, 2, 3, 4, 5}, {2, 5}, {3}, {1, 1, 4}})},
                       {"num_context", ints({0, 0, 0, 2})},
                       {"stars-list", float_lists({{1, 1, 1, 0, 1}, {1, 2}, {1}, {1, 1, 1}})}});
  models::SessionConfig model;
  model.item_feature = "item_id-list";
  model.features = {{"item_id-list", true, 6}};
  const data::ParquetFiles data(file.string());
  const auto counts = [&](int64_t length, data::Truncation truncation) {
    return tasks::survey_training(data, model, {.max_length = length, .truncation = truncation})
        .target_counts;
  };
  const auto last = data::Truncation::KeepLast, first = data::Truncation::KeepFirst;
  using Counts = std::vector<int64_t>;
  EXPECT_EQ(counts(5, last), (Counts{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(counts(3, last), (Counts{0, 0, 0, 0, 2, 2}));
  EXPECT_EQ(counts(3, first), (Counts{0, 0, 1, 1, 1, 1}));
  model.event_weights.column = "stars-list";
  EXPECT_EQ(counts(5, last), (Counts{0, 0, 1, 1, 1, 2}));
  model.train_on_last_item_seq_only = true;
  EXPECT_EQ(counts(5, last), (Counts{0, 0, 0, 0, 1, 2}));
  model.train_on_last_item_seq_only = false;
  model.body = "bert";
  EXPECT_EQ(counts(5, last), (Counts{0, 1, 2, 1, 1, 2}));
}

}  // namespace
}  // namespace convoy
